"""`bucketingest inspect`: reads, analyses, shows. It needs neither Spark nor Java."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import typer
from rich.console import Console

from bucketingest.cli.inspection.analysis import analyse
from bucketingest.cli.inspection.index_state import index_state
from bucketingest.cli.inspection.render import as_json as report_as_json
from bucketingest.cli.inspection.render import show
from bucketingest.cli.inspection.report import TableReport
from bucketingest.cli.inspection.services import Rules, services_report
from bucketingest.cli.inspection.snapshot import read_snapshot
from bucketingest.exit_codes import ExitCode
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.spec.fields.table import DEFAULT_TARGET_FILE_SIZE
from bucketingest.spec.model import BucketIngestSpec
from bucketingest.spec.quantity import parse_duration
from bucketingest.spec.reading.load import load_file
from bucketingest.storage import Storage, open_storage

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
