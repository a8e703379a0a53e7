"""Judges a table after a schedule: rebuilds it from the input and compares, and looks for what must not be there."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from bucketingest.write.plan import DELETE_COLUMN
from support.simulation.reader import Entry, Snapshot, merged, read
from support.simulation.source import SCHEMA, Row, expected_rows, offset_of, rejected_offsets

_RANGES = "bucketingest.ranges"
_HOUSEKEEPING = (".hoodie/.temp/", ".hoodie/.heartbeat/")


@dataclass(frozen=True, slots=True)
class Ended:
    """What is there when all is done."""

    objects: Mapping[str, bytes]
    letters: Mapping[str, bytes]
    rows: Sequence[Row]
    foreign_rows: Sequence[Row]
    foreign_instants: frozenset[str]
    """Instants that other writers requested."""
    others: bool
    """Whether other writers visited the table."""


def check_moment(objects: Mapping[str, bytes], rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with the table as a reader sees it now: it must be that of a beginning of the input."""
    table = read(objects)
    if table.completed.keys() & table.rolled_back:
        return  # its rows are missing until they are ingested again
    ours = _our_commits(table)
    end = max((offset_of(_canonical(r["end"])) for ranges in ours.values() for r in ranges), default=0)
    entries = [entry for entry in table.entries() if entry.file.instant in ours]
    yield from _compare(merged(entries), expected_rows(rows[:end]), f"with the input up to {end}")
    yield from _doubled(entries, rows)


def check_end(ended: Ended) -> Iterator[str]:
    """Everything that is wrong."""
    table = read(ended.objects)
    # What other writers leave, and take back from each other, is their own affair.
    strange = ended.foreign_instants - (table.completed.keys() - table.rolled_back)
    entries = [entry for entry in table.entries(archived=True) if entry.file.instant not in strange]
    expected = expected_rows(ended.rows) | {row["id"]: row for row in ended.foreign_rows}
    yield from _compare(merged(entries), expected, "at the end")
    undone = {instant for instant in table.completed if instant in table.rolled_back}
    if not undone:
        yield from _doubled(entries, ended.rows)
    yield from _chain(table, len(ended.rows))
    yield from _file_groups(table)
    yield from _write_stats(table, undone)
    yield from _leftovers(ended, table)
    yield from _dead_letters(ended, undone)


def _compare(found: Mapping[str, Mapping[str, Any]], expected: Mapping[str, Row], when: str) -> Iterator[str]:
    shown = {key: {name: row[name] for name in SCHEMA.names} for key, row in found.items()}
    for key in sorted(expected.keys() - shown.keys()):
        yield f"lost {when}: {expected[key]}"
    for key in sorted(shown.keys() - expected.keys()):
        yield f"there but should not be {when}: {shown[key]}"
    for key in sorted(expected.keys() & shown.keys()):
        if shown[key] != expected[key]:
            yield f"wrong {when}: {shown[key]} instead of {expected[key]}"


def _doubled(entries: Sequence[Entry], rows: Sequence[Row]) -> Iterator[str]:
    """No row of the source is in the files twice, no deletion more often than in the source."""
    offsets = Counter(entry.row["offset"] for entry in entries if entry.row is not None and entry.row["offset"] >= 0)
    for offset, count in offsets.items():
        if count > 1:
            files = [e.file.path for e in entries if e.row is not None and e.row["offset"] == offset]
            yield f"the row of offset {offset} is in the files {count} times: {files}"
    deletions = Counter((row["id"], row["at"]) for row in rows if row[DELETE_COLUMN])
    for deletion, count in Counter((e.key, e.ordering) for e in entries if e.row is None).items():
        if count > deletions[deletion]:
            yield f"the deletion {deletion} is in the files {count} times, in the source {deletions[deletion]} times"


def _our_commits(table: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """Instant -> ranges of every completed instant of the pipeline."""
    found = {}
    for instant in table.completed:
        extra = table.metadata(instant)["extraMetadata"] or {}
        if _RANGES in extra:
            found[instant] = json.loads(extra[_RANGES])
    return found


def _chain(table: Snapshot, end: int) -> Iterator[str]:
    """The ranges of the completed instants that nobody took back follow each other from 0 to the end."""
    ours = {instant: ranges for instant, ranges in _our_commits(table).items() if instant not in table.rolled_back}
    in_order = sorted(ours, key=lambda instant: (table.completion_times[instant], instant))
    pairs = [
        (offset_of(_canonical(part["start"])), offset_of(_canonical(part["end"])))
        for instant in in_order
        for part in ours[instant]
    ]
    covered: Counter[int] = Counter()
    for first, last in pairs:
        covered.update(range(first, last))
    if missing := [offset for offset in range(end) if not covered[offset]]:
        yield f"no commit names the offsets {missing}: {pairs}"
    if len(ours) == len(_our_commits(table)) and (twice := [o for o, count in covered.items() if count > 1]):
        yield f"several commits name the offsets {twice}: {pairs}"


def _file_groups(table: Snapshot) -> Iterator[str]:
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for file in table.visible(archived=True):
        ids[file.partition, file.file_id[:8]].add(file.file_id)
        if f"{file.partition}/.hoodie_partition_metadata" not in table.objects:
            yield f"{file.path} lies in a partition without its metadata: readers skip it"
    for place, found in ids.items():
        if len(found) > 1:
            yield f"bucket {place} has several file groups: {sorted(found)}"


def _write_stats(table: Snapshot, undone: set[str]) -> Iterator[str]:
    """A commit names exactly the files that are visible by its instant."""
    for instant in table.completed.keys() - undone:
        stats = table.metadata(instant)["partitionToWriteStats"] or {}
        named = sorted(stat["path"] for of_partition in stats.values() for stat in of_partition)
        there = sorted(file.path for file in table.files if file.instant == instant)
        if named != there:
            yield f"instant {instant} names {named}, there are {there}"


def _leftovers(ended: Ended, table: Snapshot) -> Iterator[str]:
    """Nothing of an instant that did not complete, nothing pending."""
    for file in table.files:
        if file.instant not in table.completed and file.instant not in ended.foreign_instants:
            yield f"an orphan: {file.path}"
    for instant in table.pending - ended.foreign_instants:
        yield f"instant {instant} is still pending"
    if not ended.others:  # theirs may die at any step: their next start, or the rollback command, finishes what is left
        for instant in table.pending_rollbacks:
            yield f"a rollback of {instant} is still pending: every write of Hudi's single writer fails over it"
    # A late twin's marker of a completed instant harms nobody: archival deletes it with the instant (Hudi 1.2.0).
    tolerated = ended.foreign_instants | table.completed.keys()
    for path in ended.objects:
        if path.startswith(_HOUSEKEEPING) and not any(instant in path for instant in tolerated):
            yield f"left behind: {path}"


def _dead_letters(ended: Ended, undone: set[str]) -> Iterator[str]:
    staged = [path for path in ended.letters if path.startswith(".staging/")]
    if staged:
        yield f"dead letters are staged still: {staged}"
    letters = [
        json.loads(row["value"])["offset"]
        for path, content in ended.letters.items()
        if path not in staged
        for row in pq.ParquetFile(io.BytesIO(content)).read(use_threads=False).to_pylist()
    ]
    wanted = rejected_offsets(ended.rows)
    if sorted(letters) != wanted and not (undone and set(letters) == set(wanted)):
        yield f"dead letters of offsets {sorted(letters)} instead of {wanted}"


def _canonical(position: Any) -> str:
    return json.dumps(position)
