"""`bucketingest diagnose`: writes one file that explains a pipeline, and replays the decisions in such a file."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from rich.console import Console

from bucketingest.cli.errors import BadOption
from bucketingest_operator.cli.bundle import BundleWriter, read_decisions
from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.collect import Collector, Wanted
from bucketingest_operator.cli.errors import Denied
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import decode_observation, encode_plan


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
    sys.stdout.write(f", {unreadable} that cannot be repeated\n" if unreadable else "\n")


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


_CONTEXT_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replayed pass of the operator."""

    at: str
    """Time of the observation."""
    actions: tuple[str, ...]
    """The old decision, one or two words per action."""
    difference: tuple[str, ...] = ()
    """Lines of a diff of the plans, then against now; empty: the decision is the same."""
    unreadable: str = ""
    """Why it cannot be replayed: another version of the operator wrote it, or it was too large for the log."""


def replay(records: Iterable[Mapping[str, Any]]) -> Iterator[Replayed]:
    """Replay each record of the decision log. Pure."""
    for record in records:
        plan, seen = record.get("plan"), record.get("observation")
        if not isinstance(plan, dict) or not isinstance(seen, dict | str):
            continue
        then = tuple(_words(action) for action in plan.get("actions", ()))
        if isinstance(seen, str):
            yield Replayed(str(record.get("timestamp", "")), then, unreadable=seen)
            continue
        at = str(seen.get("now", record.get("timestamp", "")))
        try:
            now = reconcile(decode_observation(seen))
        except (ValidationError, ValueError, TypeError, KeyError) as error:
            yield Replayed(at, then, unreadable=str(error).partition("\n")[0])
            continue
        yield Replayed(at, then, tuple(_difference(plan, encode_plan(now))))


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = (json.dumps(each, indent=1, sort_keys=True, default=str).splitlines() for each in (then, now))
    return difflib.unified_diff(before, after, "then", "now", lineterm="", n=_CONTEXT_LINES)


def _words(action: Any) -> str:
    if not isinstance(action, dict):
        return str(action)
    name = str(action.get("action", "?"))
    if name == "WriteStatus":
        return f"WriteStatus phase={action.get('status', {}).get('phase')}"
    about = action.get("number") or action.get("reason") or ""
    return f"{name} {about}".strip()
