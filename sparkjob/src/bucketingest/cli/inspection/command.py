"""`bucketingest inspect`: reads, analyses, shows. It needs neither Spark nor Java."""

from __future__ import annotations

import typer
from rich.console import Console

from bucketingest.cli.inspection.analysis import analyse
from bucketingest.cli.inspection.render import as_json as report_as_json
from bucketingest.cli.inspection.render import show
from bucketingest.cli.inspection.snapshot import read_snapshot
from bucketingest.spec.quantity import parse_duration
from bucketingest.storage import open_storage

_WIDTH_ELSEWHERE = 160
"""Columns where stdout is no terminal, so that nothing is folded in a file."""


def inspect_table(table_url: str, *, as_json: bool, instants: int, pending_limit: str) -> None:
    """Print the report of a table. Raises what `read_snapshot` does, and typer's BadParameter."""
    try:
        limit = parse_duration(pending_limit)
    except ValueError as error:
        raise typer.BadParameter(f"--pending-limit: {error}") from error
    report = analyse(read_snapshot(open_storage(table_url), instants=instants), instants=instants, pending_limit=limit)
    if as_json:
        typer.echo(report_as_json(report))
        return
    console = Console()
    show(report, console if console.is_terminal else Console(width=_WIDTH_ELSEWHERE))
