"""Shows what table services have left to do, for a person."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from bucketingest.cli.inspection.figures import age, megabytes, new_table
from bucketingest.cli.inspection.report import DueServices, ServicesReport, SmallFileGroups


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
