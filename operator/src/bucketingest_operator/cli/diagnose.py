"""`bucketingest diagnose`: writes one file that explains a pipeline, and replays the decisions in such a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

from bucketingest.cli.errors import BadOption
from bucketingest_operator.cli.bundle import BundleWriter, read_decisions
from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.collect import Collector, Wanted
from bucketingest_operator.cli.errors import Denied
from bucketingest_operator.cli.replay import replay


def diagnose_resource(wanted: Wanted, cluster: Cluster, output: Path | None) -> Path:
    """Write the bundle; returns its path. Raises ClusterError, and BadOption if the file cannot be written."""
    now = datetime.now(UTC)
    folder = f"bucketingest-{wanted.namespace}-{wanted.name}-{now:%Y%m%dT%H%M%SZ}"
    path = output or Path(f"{folder}.tar.gz")
    bundle = BundleWriter(folder)
    bundle.add_json(
        "about.json", {"at": now.isoformat(), "namespace": wanted.namespace, "name": wanted.name, **_versions()}
    )
    console = Console(stderr=True)
    with console.status("reading") as status:
        Collector(cluster, wanted, bundle, lambda part: status.update(f"reading {part}")).collect()
    try:
        bundle.write(path)
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}") from error
    console.print(f"{path}: {len(bundle.names)} files", highlight=False)
    for part, why in sorted(bundle.missing.items()):
        console.print(f"  without {part}: {why}", highlight=False, markup=False)
    return path


def show_replay(path: Path) -> None:
    """Replay the decisions of a bundle, and print each, with what differs now."""
    same = different = unreadable = 0
    for each in replay(read_decisions(path)):
        verdict = "another decision now" if each.difference else each.unreadable or "the same"
        sys.stdout.write(f"{each.at}  {', '.join(each.actions) or 'nothing'}: {verdict}\n")
        sys.stdout.writelines(f"    {line}\n" for line in each.difference)
        different += bool(each.difference)
        unreadable += bool(each.unreadable)
        same += not each.difference and not each.unreadable
    sys.stdout.write(f"{same + different + unreadable} decisions: {same} the same, {different} others")
    sys.stdout.write(f", {unreadable} of another version of the operator\n" if unreadable else "\n")


def within(cluster: Cluster, wanted: Wanted) -> Wanted:
    """The same, but search the operator only in the pipeline's namespace if the user may not list pods of all."""
    if wanted.operator_namespace is not None:
        return wanted
    try:
        cluster.get("/api/v1/pods", limit="1")
    except Denied:
        return replace(wanted, operator_namespace=wanted.namespace)
    return wanted


def _versions() -> dict[str, str]:
    found = {}
    for package in ("bucketingest", "bucketingest-operator"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
