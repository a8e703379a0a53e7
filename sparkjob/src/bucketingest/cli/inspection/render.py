"""Shows a report: tables for a person, one JSON object for a program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bucketingest.cli.inspection.report import (
    DueServices,
    Files,
    IndexState,
    InstantLine,
    Properties,
    ServicesReport,
    SmallFileGroups,
    TableReport,
)

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
    _show_schema(report, console)
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


def _show_schema(report: TableReport, console: Console) -> None:
    if report.columns is not None:
        console.print(f"{report.columns} columns")
    for each in report.schema_changes:
        parts = [f"new {', '.join(each.added)}"] if each.added else []
        parts += [f"wider {', '.join(each.widened)}"] if each.widened else []
        text = "; ".join([*parts, *each.other])
        by = f"pipeline {each.pipeline}" if each.pipeline else "another writer"
        console.print(f"columns changed with {each.time} by {escape(by)}: {escape(text)}", soft_wrap=True)


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


def show_services(services: ServicesReport, console: Console) -> None:
    """The log files that are not merged, pending plans, and what is due."""
    console.print("\n[bold]Table services[/]")
    console.print(
        f"{services.unmerged_groups:,} file groups with {services.log_files:,} log files, "
        f"{services.without_base:,} of them without a base file; MB: logs {megabytes(services.log_bytes)}, base files "
        f"{megabytes(services.base_bytes)}"
    )
    if services.snapshot_age is not None:
        bases = services.snapshot_age if services.read_optimized_age is None else services.read_optimized_age
        console.print(f"snapshot readers: {age(services.snapshot_age)}, base-file readers: {age(bases)}")
    _show_due(services.due, console)
    if services.oldest:
        title = "Oldest log files"
        table = new_table(title, "partition", "file id", ">log files", ">oldest", ">logs MB", ">base MB")
        for each in services.oldest:
            base = "-" if each.base_bytes is None else megabytes(each.base_bytes)
            sizes = (megabytes(each.log_bytes), base)
            partition = escape(each.partition_path) or "-"
            table.add_row(partition, each.file_id, str(each.log_files), age(each.oldest_log_age), *sizes)
        console.print(table)
    if services.pending:
        table = new_table("Pending plans", "instant", "action", ">age", ">file groups", ">files", "planned by")
        for plan in services.pending:
            counts = ("-" if count is None else f"{count:,}" for count in (plan.file_groups, plan.files))
            table.add_row(plan.time, plan.action, age(plan.age), *counts, plan.by)
        console.print(table)


def _show_due(due: DueServices, console: Console) -> None:
    compaction = "unknown" if due.compaction_file_groups is None else f"{due.compaction_file_groups:,} file groups"
    clean = "unknown" if due.clean_files is None else f"{due.clean_files:,} files"
    stay = f"superseded for {age(due.retain)}" if due.retain is not None else f"older than {due.versions} versions"
    reasons = f"a log file of {age(due.log_age)}"
    if due.log_files is not None and due.log_ratio is not None:
        reasons += f", {due.log_files} log files, or logs that cost {due.log_ratio:.0%} of the base file"
    console.print(
        f"due: compaction of {compaction} ({reasons}); clean of {clean} ({stay}); archive of up to "
        f"{due.archive_instants:,} commits"
    )
    for pin in due.archive_pins:
        console.print(
            f"the archive leaves instants from {pin.first_kept} on: {pin.instant}: {escape(pin.why)}", soft_wrap=True
        )
    if due.small_groups is not None:
        console.print(_small(due.small_groups))
    for reason in due.unknown:
        console.print(f"[yellow]![/] {escape(reason)}", soft_wrap=True)


def _small(small: SmallFileGroups) -> str:
    if small.groups is None:
        return "small file groups: unknown"
    how = f"{small.due:,} would be merged now" + ("" if small.merged else ", if services.clustering were enabled")
    return (
        f"small file groups (below {megabytes(small.limit)} MB): {small.groups:,} with {megabytes(small.size)} MB, "
        f"up to {small.most:,} in a partition; {how}"
    )


def age(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, size, below, below_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below_size} {below}"
    return f"{whole} s"


def megabytes(size_bytes: int) -> str:
    """Bytes as MB (10^6)."""
    return f"{size_bytes / 1e6:,.3f}"


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with > is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return table
