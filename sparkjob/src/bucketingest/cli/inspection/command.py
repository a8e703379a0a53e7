"""`bucketingest inspect`: reads, analyses, shows. It needs neither Spark nor Java."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import typer
from rich.console import Console

from bucketingest.cli.inspection.analysis import analyse
from bucketingest.cli.inspection.layout import current_groups
from bucketingest.cli.inspection.render import as_json as report_as_json
from bucketingest.cli.inspection.render import show
from bucketingest.cli.inspection.report import IndexState, TableReport
from bucketingest.cli.inspection.services import Rules, services_report
from bucketingest.cli.inspection.snapshot import TableSnapshot, read_snapshot
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.file_view import FileGroup
from bucketingest.index.errors import StateError
from bucketingest.index.state.coverage import Covered, CoveredSlice, difference
from bucketingest.index.state.manifest import Manifest
from bucketingest.index.state.store import StateStore
from bucketingest.index.whole_table.identity import WHOLE_TABLE, group_of
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.spec.fields.table import DEFAULT_TARGET_FILE_SIZE
from bucketingest.spec.model import BucketIngestSpec
from bucketingest.spec.quantity import parse_duration
from bucketingest.spec.reading.load import load_file
from bucketingest.storage import Storage, open_storage
from bucketingest.write.covering.written_keys import logs_of_new_keys

_WIDTH_ELSEWHERE = 160
"""Columns where stdout is no terminal, so that nothing is folded in a file."""


def inspect_table(table_url: str, *, as_json: bool, instants: int, pending_limit: str, resource: Path | None) -> None:
    """Print the report of a table. `resource`: the file whose limits say what is due.

    Ends with ExitCode.FINDINGS if something is wrong. Raises what `read_snapshot` does, SpecError, and typer's
    BadParameter.
    """
    try:
        limit = parse_duration(pending_limit)
    except ValueError as error:
        raise typer.BadParameter(f"--pending-limit: {error}") from error
    rules = Rules() if resource is None else _rules(load_file(resource).spec)
    report = inspected(open_storage(table_url), rules, instants=instants, pending_limit=limit)
    if as_json:
        typer.echo(report_as_json(report))
    else:
        console = Console()
        show(report, console if console.is_terminal else Console(width=_WIDTH_ELSEWHERE))
    if report.findings:
        raise typer.Exit(ExitCode.FINDINGS)


def inspected(storage: Storage, rules: Rules, *, instants: int, pending_limit: timedelta) -> TableReport:
    """The report of a table. Raises what `read_snapshot` does."""
    snapshot = read_snapshot(storage, instants=instants)
    services = services_report(storage, snapshot, rules)
    state = index_state(storage, snapshot)
    return analyse(snapshot, services, state, instants=instants, pending_limit=pending_limit)


def _rules(spec: BucketIngestSpec) -> Rules:
    services, wanted = spec.services, spec.services.clustering
    target = spec.table.index.target_file_size or DEFAULT_TARGET_FILE_SIZE
    clustering = ClusteringTriggers(target, wanted.small_percent, wanted.min_groups)
    return Rules(
        CompactionTriggers.of(services, spec.slo),
        Retention.of(services.clean),
        ArchiveRules.of(services.archive),
        clustering,
        wanted.enabled,
    )


def index_state(storage: Storage, snapshot: TableSnapshot) -> IndexState | None:
    """The report; None for a table without a state. Opens two small files. Raises what storage raises."""
    if not snapshot.has_state:
        return None
    groups: defaultdict[str, dict[str, FileGroup]] = defaultdict(dict)
    for group in current_groups(snapshot.view, snapshot.replaced):
        groups[group.partition_path][group.file_id] = group
    everything, in_logs = sum(map(len, groups.values())), _log_key_groups(groups, snapshot)
    try:
        store = StateStore.find(storage)
        if store is None:
            return IndexState(changed_groups=everything, missing_partitions=len(groups), log_key_groups=in_logs)
        manifest, sizes = store.newest_manifest(), store.run_sizes()
    except StateError as error:
        return IndexState(changed_groups=everything, log_key_groups=in_logs, problem=str(error))
    lost = sum(digest not in sizes for digest in manifest.runs)
    known = _covered(store, manifest)
    changed = everything
    if not lost:
        changed = sum(len(difference(known.get(path, {}), found).read) for path, found in groups.items())
    return IndexState(
        runs=len(manifest.runs),
        lost_runs=lost,
        size_bytes=sum(sizes.get(digest, 0) for digest in manifest.runs),
        known_groups=everything - changed,
        changed_groups=changed,
        missing_partitions=len(groups) if lost else len(groups.keys() - known.keys()),
        log_key_groups=in_logs,
        known_up_to=manifest.view or None,
    )


def _covered(store: StateStore, manifest: Manifest) -> Mapping[str, Covered]:
    """What it has of each partition, also if it has the table as one."""
    if store.identity == "partition+key":
        return {path: each.covered for path, each in manifest.partitions.items()}
    found: defaultdict[str, dict[str, CoveredSlice]] = defaultdict(dict)
    for name, each in (manifest.partitions[WHOLE_TABLE].covered if manifest.partitions else {}).items():
        path, file_id = group_of(name)
        found[path][file_id] = each
    return found


def _log_key_groups(groups: Mapping[str, Mapping[str, FileGroup]], snapshot: TableSnapshot) -> int:
    """File groups without a base file, or with a log file that one of our opened commits put new keys into."""
    named = logs_of_new_keys(snapshot.commits.values())
    count = 0
    for path, of_path in groups.items():
        for file_id, group in of_path.items():
            if group.latest is not None and group.latest.log_files:
                names = {str(each.name) for each in group.latest.log_files}
                count += group.latest.base_file is None or not names.isdisjoint(named.get((path, file_id), ()))
    return count
