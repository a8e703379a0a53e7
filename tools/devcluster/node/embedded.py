"""One Kubernetes node in namespaces of its own: up in seconds, and ended by ending one process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from devcluster.binaries import HELM, KUBE, REGISTRY, build
from devcluster.commands import run, say, succeeds
from devcluster.errors import ClusterError
from devcluster.images import base as base_images
from devcluster.images.platforms import native
from devcluster.instance import IPV6_VARIABLE, NODE_NAME, Instance, Network, Running, cluster_folder, start_time
from devcluster.node import cgroups, machine
from devcluster.node.api import Api, wait_until
from devcluster.node.networks import connect, disconnect, free_network
from devcluster.node.volumes import make_volumes

_NODE_FILES: Final = Path(__file__).parent
_IMPORTED: Final = (base_images.PAUSE,)
_API_SECONDS: Final = 90.0
_NODE_SECONDS: Final = 120.0
_END_SECONDS: Final = 20.0
_ANSWER_SECONDS: Final = 10.0


def setup(*, with_node: bool) -> None:
    """Install, build and make everything that is missing. Minutes the first time, nothing later.

    Raises:
        CannotRunError: this machine cannot.
        ClusterError: a step failed.
    """
    machine.require()
    with _locked("setup"):
        machine.install_packages(with_node=with_node)
        build([KUBE, REGISTRY, HELM] if with_node else [KUBE])
        if with_node:
            base_images.make_pause()
            base_images.make_debian(native())


_left_running: Final[list[subprocess.Popen[bytes]]] = []
"""Nodes outlive whoever starts them. Python complains of a process that is forgotten while it runs."""


def up(instance: Instance, *, with_node: bool) -> Running:
    """Bring the instance up, or find it up. Without a node there is a control plane only: enough for the API.

    Raises:
        CannotRunError: this machine cannot.
        ClusterError: a step failed; what was started is ended again.
    """
    machine.require()
    with _locked(f"run-{instance.name}"):
        running = instance.running()
        if running is not None and not _answers(running):
            say(f"the API server of cluster {instance.name} does not answer: it is started again")
            running = None
        if running is not None and (running.with_node or not with_node):
            return running
        if running is not None:
            raise ClusterError(f"cluster {instance.name} is up without a node: take it down first")
        setup(with_node=with_node)
        _end(instance)  # what a crash left, of the machine or of a process of the node
        try:
            return _start(instance, with_node=with_node)
        except BaseException:
            _end(instance, keep_logs=True)
            raise


def down(instance: Instance) -> None:
    """End the instance; images and builds are kept. It need not be up."""
    with _locked(f"run-{instance.name}"):
        _end(instance)


def certificates(network: Network) -> Path:
    """The folder of certificates for these addresses, made once."""
    folder = cluster_folder() / "pki" / (f"{network.slot}-ipv6" if network.ipv6 else str(network.slot))
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        names = [NODE_NAME, network.node_ip, network.api_service_ip, network.cluster_ip]
        run([_NODE_FILES / "pki.sh", unfinished, *names])
        unfinished.rename(folder)
    return folder


def _answers(running: Running) -> bool:
    """Whether its API server answers; a busy one gets some time for it."""
    api = Api(running.network.node_ip, certificates(running.network))
    deadline = time.monotonic() + _ANSWER_SECONDS
    while api.get("/readyz") is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _start(instance: Instance, *, with_node: bool) -> Running:
    for folder in (instance.run / "log", instance.containerd_root, cluster_folder() / "registry"):
        folder.mkdir(parents=True, exist_ok=True)
    with _locked("network"):  # two instances must not take the same addresses
        network = replace(free_network(), ipv6=bool(os.environ.get(IPV6_VARIABLE)))
        connect(instance.namespace, network)
    pki = certificates(network)
    cgroups.make(instance.namespace)
    shutil.copy(pki / "admin.kubeconfig", instance.kubeconfig)
    process = _start_process(instance, network, pki, with_node=with_node)
    _left_running.append(process)
    started = start_time(process.pid)
    if started is None:
        raise ClusterError(f"the node ended at once; see {instance.run / 'log'}")
    running = Running(process.pid, started, network.slot, with_node, network.ipv6)
    instance.remember(running)
    api = Api(network.node_ip, pki)
    logs = instance.run / "log"

    def alive() -> bool:
        return process.poll() is None

    wait_until("the API server is ready", lambda: api.get("/readyz"), alive=alive, seconds=_API_SECONDS, logs=logs)
    say("API server ready")
    if with_node:
        _import_images(instance, alive)
        wait_until(
            "the node is ready", lambda: api.node_is_ready(NODE_NAME), alive=alive, seconds=_NODE_SECONDS, logs=logs
        )
        say("node ready")
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    wait_until("controllers work", lambda: api.get(account), alive=alive, seconds=_API_SECONDS, logs=logs)
    if with_node:
        make_volumes(instance)
    say(f"cluster {instance.name} is up: KUBECONFIG={instance.kubeconfig}")
    return running


def _start_process(instance: Instance, network: Network, pki: Path, *, with_node: bool) -> subprocess.Popen[bytes]:
    binaries = instance.run / "bin"
    shutil.rmtree(binaries, ignore_errors=True)  # of a start that failed
    binaries.mkdir()
    for module in (KUBE, REGISTRY) if with_node else (KUBE,):
        for program in {*module.programs, *module.aliases}:
            (binaries / program).symlink_to(module.folder / program)
    environment = {
        **os.environ,
        "RUN": str(instance.run),
        "BIN": str(binaries),
        "PKI": str(pki),
        "NODE_FILES": str(_NODE_FILES),
        "NODE_NAME": NODE_NAME,
        "NODE_IP": network.node_ip,
        "CLUSTER_IP": network.cluster_ip,
        "ANY_IP": "::" if network.ipv6 else "0.0.0.0",  # noqa: S104 - in a network namespace of its own
        "POD_CIDR": network.pods,
        "SERVICE_CIDR": network.services,
        "CGROUP": instance.namespace,
        "CONTAINERD_ROOT": str(instance.containerd_root),
        "CONTAINERD_SOCKET": str(_socket(instance)),
        "REGISTRY_ROOT": str(cluster_folder() / "registry"),
        "WITH_NODE": "1" if with_node else "0",
    }
    own = ["unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
    command = ["nsenter", f"--net=/run/netns/{instance.namespace}", *own, "--mount-proc", str(_NODE_FILES / "node.sh")]
    with (instance.run / "log" / "node.log").open("wb") as log:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _socket(instance: Instance) -> Path:
    return instance.run / "containerd.sock"


def _import_images(instance: Instance, alive: Callable[[], bool]) -> None:
    """Give containerd the images that no registry has."""
    control = ["ctr", "--address", str(_socket(instance)), "--namespace", "k8s.io"]
    logs = instance.run / "log"
    wait_until(
        "containerd answers", lambda: succeeds([*control, "version"]), alive=alive, seconds=_NODE_SECONDS, logs=logs
    )
    known = run([*control, "images", "list", "-q"]).split()
    for image in _IMPORTED:
        if image not in known:
            run([*control, "images", "import", str(base_images.archive(image))])


def _end(instance: Instance, *, keep_logs: bool = False) -> None:
    running = instance.running()
    if running is not None:
        # The namespace's first process dies with its parent, and with it every process in it.
        os.kill(running.pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        while start_time(running.pid) == running.started and time.monotonic() < deadline:
            time.sleep(0.02)
        for each in _left_running:
            each.poll()  # Python complains of an ended process, too, until it has its exit status
    disconnect(instance.namespace)
    cgroups.remove(instance.namespace)
    if not keep_logs:
        shutil.rmtree(instance.run, ignore_errors=True)
    else:
        (instance.run / "running.json").unlink(missing_ok=True)


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """One at a time on this machine."""
    cluster_folder().mkdir(parents=True, exist_ok=True)
    with (cluster_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
