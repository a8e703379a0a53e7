"""Shows a report: tables for a person, one JSON object for a program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bucketingest.cli.inspection.figures import age, megabytes, new_table
from bucketingest.cli.inspection.report import Files, IndexState, InstantLine, Properties, TableReport
from bucketingest.cli.inspection.services_text import show_services

_UNCOMMITTED_SHOWN: Final = 10


def as_json(report: TableReport) -> str:
    """The whole report; names are those of its fields."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False)


def show(report: TableReport, console: Console) -> None:
    """The whole report for a person."""
    console.print(f"[bold]{escape(report.url)}[/]", soft_wrap=True)
    _show_properties(report.properties, console)
    show_timeline(report.timeline, console)
    console.print(f"{report.completed_instants} completed, {report.pending_instants} pending on the active timeline")
    _show_files(report.files, console)
    if report.index_state is not None:
        _show_state(report.index_state, console)
    show_services(report.services, console)
    _show_pending(report, console)
    _show_uncommitted(report, console)
    _show_pipelines(report, console)
    if not report.findings:
        console.print("\n[green]Nothing wrong found.[/]")
    for finding in report.findings:
        console.print(f"\n[yellow]![/] {escape(finding)}", soft_wrap=True)


def show_timeline(lines: Iterable[InstantLine], console: Console) -> None:
    """The instants as a table, the newest last."""
    table = new_table(
        "Timeline", "instant", "action", "state", "completed", ">age", ">rows", ">deletes", ">files", ">MB"
    )
    for line in lines:
        table.add_row(
            line.time,
            line.action,
            line.state,
            line.completed or "-",
            age(line.age),
            _number(line.rows),
            _number(line.deletes),
            _number(line.files),
            "-" if line.size_bytes is None else megabytes(line.size_bytes),
        )
    console.print(table)


def _show_state(state: IndexState, console: Console) -> None:
    groups = f"it knows {state.known_groups:,} file groups as they are, {state.changed_groups:,} are new or changed"
    if state.missing_partitions:
        groups += f"; {state.missing_partitions:,} partitions are not loaded, some perhaps until a row of them comes"
    _show_size(state, groups, console)
    if state.log_key_groups:
        console.print(
            f"at least {state.log_key_groups:,} file groups have new keys in log files, where Hudi's SIMPLE and BLOOM "
            "indexes do not look: run bucketingest handover before such a writer writes, or it makes duplicates",
            soft_wrap=True,
        )


def _show_size(state: IndexState, groups: str, console: Console) -> None:
    if state.problem is not None:
        console.print(f"\nindex state: cannot be read: {escape(state.problem)}; {groups}", soft_wrap=True)
        return
    lost = f", {state.lost_runs} of them lost" if state.lost_runs else ""
    up_to = "empty" if state.known_up_to is None else f"as of {state.known_up_to}"
    console.print(
        f"\nindex state: {state.runs} files{lost} with {megabytes(state.size_bytes)} MB, {up_to}; {groups}",
        soft_wrap=True,
    )


def _show_properties(properties: Properties, console: Console) -> None:
    buckets = "not recorded (another writer made the table)" if properties.buckets is None else str(properties.buckets)
    if properties.hash is not None:
        buckets += f", hash {properties.hash} of {', '.join(properties.hash_fields)}"
    rules = [("bucket rules", ", ".join(properties.bucket_rules))] if properties.bucket_rules else []
    grid = Table.grid(padding=(0, 2))
    for name, value in (
        ("name", properties.name),
        ("table", f"{properties.type}, version {properties.version}"),
        ("record key", ", ".join(properties.record_key) or "-"),
        ("partitioned by", ", ".join(properties.partition_fields) or "-"),
        ("ordering field", ", ".join(properties.ordering_fields) or "-"),
        ("merge mode", properties.merge_mode or "-"),
        ("index", "state: each key is looked up") if properties.has_state else ("buckets", buckets),
        *rules,
        ("metadata table", properties.metadata_table or "off"),
    ):
        grid.add_row(f"[dim]{name}[/]", escape(value))
    console.print(grid)


def _show_files(files: Files, console: Console) -> None:
    console.print(
        f"\n[bold]Files[/]\n{files.file_groups:,} file groups in {files.partitions:,} partitions, "
        f"{files.slices:,} slices; the latest have {files.base_files:,} base files and {files.log_files:,} log files"
    )
    if files.bucket_counts:
        counted = sorted(Counter(files.bucket_counts.values()).items())
        console.print("buckets: " + ", ".join(f"{count:,} in {number:,} partitions" for count, number in counted))
    if files.sizes is None:
        return
    sizes = files.sizes
    skew = "-" if files.bucket_skew is None else f"{files.bucket_skew:.2f}"
    console.print(
        f"MB: total {megabytes(sizes.total)}, per file group min {megabytes(sizes.smallest)}, median "
        f"{megabytes(sizes.median)}, p99 {megabytes(sizes.p99)}, max {megabytes(sizes.largest)}; skew of buckets "
        f"(max/median) {skew}; with older slices {megabytes(files.all_bytes)}"
    )
    table = new_table("Largest file groups", "partition", "file id", ">log files", ">MB")
    for group in files.largest:
        partition = escape(group.partition_path) or "-"
        table.add_row(partition, group.file_id, str(group.log_files), megabytes(group.size_bytes))
    console.print(table)


def _show_pending(report: TableReport, console: Console) -> None:
    if not report.pending:
        return
    table = new_table(
        "Pending instants", "instant", "action", "state", ">age", ">heartbeat", "pipeline", "epoch", "what to do"
    )
    for each in report.pending:
        style = "yellow" if each.hangs else ""
        row = (each.time, each.action, each.state, age(each.age), age(each.heartbeat_age))
        table.add_row(*row, escape(each.pipeline or "-"), each.epoch or "-", escape(each.advice), style=style)
    console.print(table)


def _show_uncommitted(report: TableReport, console: Console) -> None:
    if not report.uncommitted:
        return
    table = new_table(f"{len(report.uncommitted)} uncommitted files", "file", "instant", "is", ">MB")
    for each in report.uncommitted[:_UNCOMMITTED_SHOWN]:
        state = "being written" if each.pending else "a leftover"
        table.add_row(escape(each.path), each.instant, state, megabytes(each.size_bytes))
    console.print(table)


def _show_pipelines(report: TableReport, console: Console) -> None:
    if not report.pipelines:
        return
    table = new_table("Pipelines", "name", ">epoch", "claimed by", "last instant", "position")
    for each in report.pipelines:
        epoch = "-" if each.epoch is None else str(each.epoch)
        cells = (each.name, epoch, each.claimant or "-", each.last_instant or "-", each.position or "-")
        table.add_row(*map(escape, cells))
    console.print(table)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
