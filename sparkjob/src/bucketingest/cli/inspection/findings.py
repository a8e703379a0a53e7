"""What is wrong with a table, or will be, in sentences with a remedy. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from bucketingest.cli.inspection.layout import current_groups
from bucketingest.cli.inspection.report import DamagedFile, TableReport
from bucketingest.cli.inspection.snapshot import DAMAGED_SHOWN
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.naming import bucket_of_file_id, split
from bucketingest.hudi.table.file_view import FileView
from bucketingest.hudi.timeline.instant_time import newest_time, parse_time
from bucketingest.lease.store_clock import DIFFERENCE_MAX

_SKEW_MAX: Final = 4.0
_LOG_FILES_MAX: Final = 50
"""Per file group on average: beyond it snapshot reads are slow."""
_GROUP_BYTES_MAX: Final = 4 * 10**9
"""Base files of 0.5 to 1 GB are meant; this is far beyond."""
_INSTANTS_MAX: Final = 10_000
"""Completed ones on the active timeline, with three files each: a commit then takes seconds on an object store, which
lists a thousand files in a request.
"""
_NAMED_MAX: Final = 3


def findings(report: TableReport, view: FileView, replaced: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Every finding, the worst first; empty if there is none."""
    found = [
        *_damage(report),
        *_clock_ahead(report),
        *_hidden_rows(report),
        *_duplicate_buckets(report, view, replaced),
        *_pending(report),
        *_leftovers(report),
    ]
    files = report.files
    if files.bucket_skew is not None and files.bucket_skew > _SKEW_MAX:
        found.append(
            f"the largest bucket has {files.bucket_skew:.1f} times the bytes of the median one: the keys do not "
            "spread; choose other hash fields in a new table, or another bucket count (for partitions to come: "
            "table.index.partitionBuckets)"
        )
    if files.largest and files.largest[0].size_bytes > _GROUP_BYTES_MAX:
        largest = files.largest[0]
        found.append(
            f"file group {largest.file_id} of partition {largest.partition_path or '(none)'} has "
            f"{largest.size_bytes / 1e9:.1f} GB, which a compaction rewrites as a whole: give partitions to come more "
            "buckets (table.index.partitionBuckets)"
        )
    if files.file_groups and files.log_files / files.file_groups > _LOG_FILES_MAX:
        found.append(
            f"{files.log_files / files.file_groups:.0f} log files per file group: snapshot reads merge all of them; "
            "compact it (services.mode: inline, or bucketingest compact), or commit less often"
        )
    if report.completed_instants > _INSTANTS_MAX:
        found.append(
            f"{report.completed_instants:,} instants are on the timeline, and each commit lists it several times: keep "
            "superseded files for a shorter time (services.clean.retain), or commit less often (commit.interval)"
        )
    return tuple(found)


def _damage(report: TableReport) -> list[str]:
    shown = report.damaged[:DAMAGED_SHOWN]
    found = [
        f"file group {each.file_id} of partition {split(each.path)[0] or '(none)'} lacks rows: {each.path} of instant "
        f"{each.instant}: {each.problem}. {_ways_out(each, report.url)}"
        for each in shown
    ]
    if more := len(report.damaged) - len(shown):
        found.append(f"{more} more data files are gone or cut: inspect --json names them all")
    return found


def _ways_out(damaged: DamagedFile, url: str) -> str:
    """What a person may do. The job's services leave the file group alone meanwhile."""
    again = "its rows came from many commits, so only a replay from the beginning brings all of them back"
    if damaged.offsets is not None:
        again = (
            f"if the source still has them, stop the pipeline, and run a copy of its file with another metadata.name "
            f"and startingOffsets: '{damaged.offsets}' by bucketingest run --once"
        )
    rest = "" if damaged.found_bytes is None else "delete what is left of the file, then "
    return (
        "Restore the file under this name: an earlier version of the object, or a copy. Else ingest the rows again: "
        f"{again}. After that, or to accept the loss: {rest}bucketingest compact --all --accept-damage {url}"
    )


def _clock_ahead(report: TableReport) -> list[str]:
    times = (time for line in report.timeline for time in (line.time, line.completed) if time is not None)
    newest = newest_time(times)
    ahead = timedelta() if newest is None else parse_time(newest) - parse_time(report.at)
    if ahead <= DIFFERENCE_MAX:
        return []
    finding = (
        f"the table's newest time {newest} is {ahead} ahead of this machine's clock: a writer's clock was ahead, or "
        "this one is behind. Until the clock has passed it, times go on after it, and no file counts as old"
    )
    return [finding]


def _hidden_rows(report: TableReport) -> list[str]:
    found = []
    if report.properties.metadata_table:
        found.append(
            f"Hudi's metadata table is on ({report.properties.metadata_table}): bucketingest refuses the table, as "
            "readers would not see its commits; let every writer set hoodie.metadata.enable=false, and set "
            "table.metadataTable to drop"
        )
    if report.unmarked_partitions:
        found.append(
            f"{_some(report.unmarked_partitions)} without .hoodie_partition_metadata: readers skip their rows; the "
            "pipeline's next commit into each creates it"
        )
    return found


def _duplicate_buckets(report: TableReport, view: FileView, replaced: Collection[tuple[str, str]]) -> list[str]:
    if report.properties.buckets is None:
        return []  # not known to have a bucket index
    ids: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for group in current_groups(view, replaced):
        try:
            ids[group.partition_path, bucket_of_file_id(group.file_id)].append(group.file_id)
        except InvalidName:
            return [f"file id {group.file_id} has no bucket: another writer wrote it without the bucket index"]
    return [
        f"bucket {bucket} of partition {partition_path or '(none)'} has {len(names)} file groups, {', '.join(names)}: "
        "a row may be in either; the pipeline refuses the table until one of them is gone"
        for (partition_path, bucket), names in ids.items()
        if len(names) > 1
    ]


def _pending(report: TableReport) -> list[str]:
    return [
        f"instant {each.time} ({each.action}, {each.state}) has hung for {each.age / 60:.0f} min: {each.advice}"
        for each in report.pending
        if each.hangs
    ]


def _leftovers(report: TableReport) -> list[str]:
    left = [each for each in report.uncommitted if not each.pending]
    if not left:
        return []
    size = sum(each.size_bytes for each in left)
    finding = (
        f"{_some([each.path for each in left])} without an instant on the timeline ({size} bytes): leftovers of "
        "rolled-back instants, which readers skip until archival has passed their instant; delete them"
    )
    return [finding]


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMED_MAX])
    return shown if len(names) <= _NAMED_MAX else f"{shown} and {len(names) - _NAMED_MAX} more"
