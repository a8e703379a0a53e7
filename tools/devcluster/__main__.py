"""Bring up a Kubernetes for tests and demos, and its images: `python -m devcluster up`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from devcluster.binaries import HELM, KEDA, build, find_tool
from devcluster.cluster import Cluster, EmbeddedCluster, choose
from devcluster.errors import ClusterError
from devcluster.images.project import TARGETS, Image, builder
from devcluster.node import embedded
from devservers.locations import MissingDependencyError

DESCRIPTION = """A real Kubernetes for tests and demos. The cluster of KUBECONFIG wins; then kind, if it is installed
with Docker; else one embedded node on this machine, for which root is needed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        cluster = choose(options.instance)
        match options.command:
            case "setup" if options.only is not None:
                build([each for each in (HELM, KEDA) if each.name == options.only])
            case "setup":
                embedded.setup(with_node=not options.no_node)
            case "up":
                cluster.up(with_node=not options.no_node)
                _show(cluster)
            case "down":
                cluster.down()
            case "build-image":
                for target in options.targets or TARGETS:
                    _tell(builder().build(target).local)
            case "push-image":
                for name in options.images:
                    _tell(cluster.push(_image(name)))
            case "status":
                return _status(cluster)
            case "kubectl":
                _tell(cluster.kubectl(*options.arguments).rstrip())
    except (ClusterError, MissingDependencyError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devcluster", description=DESCRIPTION)
    parser.add_argument(
        "--instance", metavar="NAME", help="one of several on this machine ($BUCKETINGEST_CLUSTER, or dev)"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_text in (
        ("setup", "install and build what the embedded node needs"),
        ("up", "bring the cluster up"),
    ):
        command = commands.add_parser(name, help=help_text)
        command.add_argument("--no-node", action="store_true", help="a control plane only: enough for the API")
        if name == "setup":
            names = [HELM.name, KEDA.name]
            command.add_argument("--only", choices=names, help="nothing but this, for which no root is needed")
    commands.add_parser("down", help="end the cluster")
    commands.add_parser("status", help="kubeconfig, addresses and nodes; code 1 if the cluster is not up")
    building = commands.add_parser("build-image", help="build images from the Dockerfile")
    # `choices` would refuse an empty list
    building.add_argument("targets", nargs="*", type=_target, metavar="TARGET", help="job, operator; default: both")
    pushing = commands.add_parser("push-image", help="bring built images to the cluster")
    pushing.add_argument("images", nargs="+", metavar="NAME", help="as build-image printed it")
    asking = commands.add_parser("kubectl", help="run kubectl on the cluster")
    asking.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _target(name: str) -> str:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"{name!r} is not a target: {', '.join(TARGETS)}")
    return name


def _image(name: str) -> Image:
    repository, _, tag = name.rpartition("/")[2].partition(":")
    target = repository.removeprefix("bucketingest-")
    if target not in TARGETS or not tag:
        raise ClusterError(f"{name!r} is not an image of this project: give a name that build-image printed")
    return Image(target, tag)


def _show(cluster: Cluster) -> None:
    _tell(f"export KUBECONFIG={cluster.kubeconfig}")
    _tell(f"# pods reach this machine at {cluster.host_ip}; kubectl: {find_tool('kubectl')}")


def _status(cluster: Cluster) -> int:
    if isinstance(cluster, EmbeddedCluster) and cluster.instance.running() is None:
        _tell(f"cluster {cluster.instance.name} is not up")
        return 1
    _show(cluster)
    _tell(cluster.kubectl("get", "nodes", "-o", "wide").rstrip())
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
