"""Judges a table during and after a schedule: readers see what the input makes, and nothing is left behind."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from support.simulation.judge.dead_letters import dead_letters
from support.simulation.judge.file_content import entries_of
from support.simulation.judge.files import named_files
from support.simulation.judge.leftovers import leftovers
from support.simulation.judge.model import Model, Written, compare, deletions
from support.simulation.judge.reader import Snapshot, read
from support.simulation.judge.rest import at_rest
from support.simulation.spec import PIPELINE, TRUNCATE, Assigned, Row
from support.simulation.topic import Topic

_RANGES, _PIPELINE = "bucketingest.ranges", "bucketingest.pipeline"


@dataclass(frozen=True, slots=True)
class Ended:
    """The state at the end of a schedule."""

    objects: Mapping[str, bytes]
    letters: Sequence[Mapping[str, bytes]]
    """Each place for dead letters."""
    rows: Sequence[Row]
    assigned: Assigned
    foreign_rows: Mapping[str, Row]
    """Instant of another writer -> the row that it wrote."""
    foreign_instants: AbstractSet[str]
    """Instants that other writers requested."""
    others: bool
    """Whether other writers visited the table."""
    overtaken: AbstractSet[str] = frozenset()
    """The pipeline's instants that were ever marked as overtaken: they count as rolled back."""
    unharmed: AbstractSet[str] = frozenset()
    """Instants that were archived when another writer's rollback named them."""
    topic: Topic = field(default_factory=Topic)
    pipeline: str = PIPELINE
    """The name under which the pipeline ran last."""
    letters_place: int = 0
    """Where its dead letters went last."""
    foreign_rows_may_hide: bool = False
    """Other writers schedule compactions without a lock: rows that they lose of each other do not count."""
    serves: bool = False
    """Whether the pipeline compacts the table itself."""
    refuses_cleans: bool = False
    """A savepoint or a restore may keep a clean from its end."""
    state: bool = False
    """The table has an index with a state, not with buckets."""
    doubles_allowed: bool = False
    """Late files of an aborted instant may be part of a base file: their rows are in the table anyway."""


def check_moment(objects: Mapping[str, bytes], rows: Sequence[Row], assigned: Assigned, topic: Topic) -> Iterator[str]:
    """What is wrong with the table as a reader sees it now: it must be that of a beginning of the input."""
    table = read(objects)
    if table.instants.completed.keys() & table.instants.rolled_back:
        return  # its rows are missing until they are ingested again
    written = _written(table, frozenset(), topic)
    expected = {number for part in written for number in topic.numbers(None, part.end)}
    own = {part.instant for part in written} | table.instants.plans.keys()
    shown = table.without({file.instant for file in table.files} - own)
    model = Model.of(rows, written, assigned, expected=expected)
    found = {place: rows for place, rows in shown.rows().items() if not place[1].startswith("foreign ")}
    yield from compare(found, model.outcomes(), f"with {len(expected)} rows of the input")
    yield from _doubled(shown, model)


def check_end(ended: Ended) -> Iterator[str]:
    """Everything that is wrong."""
    whole = read(ended.objects)
    renamed = ended.pipeline != PIPELINE
    instants = whole.instants
    undone = instants.completed.keys() & ((instants.rolled_back - ended.unharmed) | ended.overtaken)
    # What other writers leave, and roll back of each other, does not count.
    table = whole.without(ended.foreign_instants - (instants.completed.keys() - undone))
    written = _written(table, undone, ended.topic)
    # A compaction forgets deletions, and under its new name a pipeline ingests rows that are older than they were.
    model = Model.of(ended.rows, written, ended.assigned, forgets=ended.state or renamed)
    # A writer that pauses may put an instant older than archived ones onto the timeline, and so hide another's rows.
    for time, row in ended.foreign_rows.items():
        if _is_shown(whole, time, row):
            by_another = instants.is_hidden(time) and instants.first_active in ended.foreign_instants
            may_hide = ended.foreign_rows_may_hide or by_another or time in undone
            (model.possible if may_hide else model.certain).append(row)
    yield from compare(table.rows(), model.outcomes(), "at the end")
    in_bases = ended.overtaken & instants.compacted  # their rows come again, and the merge of both is right
    if not undone and not in_bases and not renamed and not ended.doubles_allowed:
        yield from _doubled(table, model)
    yield from _chain([part for part in written if part.pipeline == ended.pipeline], len(ended.rows))
    yield from _keys_in_two_groups(table) if ended.state else _file_groups(table)
    if ended.serves:
        yield from at_rest(whole, ended.foreign_instants, refuses_cleans=ended.refuses_cleans)
    yield from _write_stats(table, undone, with_bases=ended.state)
    yield from leftovers(ended.objects, whole, ended.foreign_instants, others=ended.others, renamed=renamed)
    staging = f".staging/{ended.pipeline}/"
    if staged := [path for path in ended.letters[ended.letters_place] if path.startswith(staging)]:
        yield f"dead letters are staged still: {staged}"
    yield from dead_letters(ended.letters, ended.rows, renamed=renamed)


def _is_shown(table: Snapshot, instant: str, row: Row) -> bool:
    """Whether another writer's row may be there: its instant completed, and its partition was not deleted. If it died
    before it requested the instant, a compaction may have taken the time.
    """
    found = table.instants.completed.get(instant)
    return found is not None and found.action == "deltacommit" and row["region"] not in table.instants.replaced_ever


def _written(table: Snapshot, undone: AbstractSet[str], topic: Topic) -> list[Written]:
    """Every micro-batch in a completed instant of the pipeline, archived ones too, in the order of completion."""
    return [
        Written(
            instant.request_time,
            number,
            instant.extra[_PIPELINE],
            topic.numbers(None if part["start"] is None else _canonical(part["start"]), _canonical(part["end"])),
            end=_canonical(part["end"]),
            stands=instant.request_time not in undone,
        )
        for instant in table.instants.by_completion
        if _RANGES in instant.extra
        for number, part in enumerate(json.loads(instant.extra[_RANGES]), start=1)
    ]


def _doubled(table: Snapshot, model: Model) -> Iterator[str]:
    """No row of the source is in what readers merge twice, no deletion more often than in the source."""
    entries = list(table.entries())
    offsets = Counter(entry.row["offset"] for entry in entries if entry.row is not None and entry.row["offset"] >= 0)
    for offset, count in offsets.items():
        if count > 1:
            files = [e.file.path for e in entries if e.row is not None and e.row["offset"] == offset]
            yield f"the row of offset {offset} is in the files {count} times: {files}"
    if any(TRUNCATE in row for row in (*model.certain, *model.possible)):
        return  # it deletes each row once more
    wanted = deletions(row for row in model.certain if row["offset"] >= 0)
    for deletion, count in Counter((e.file.partition, e.key, e.ordering) for e in entries if e.row is None).items():
        if count > wanted[deletion]:
            yield f"the deletion {deletion} is in the files {count} times, in the source {wanted[deletion]} times"


def _chain(written: Sequence[Written], end: int) -> Iterator[str]:
    """The ranges of the completed instants that were not rolled back name each row of the source once."""
    standing = [part for part in written if part.stands]
    parts = [part.numbers for part in standing]
    covered = Counter(number for numbers in parts for number in numbers)
    if missing := [offset for offset in range(end) if not covered[offset]]:
        yield f"no commit names the rows {missing}: {parts}"
    if beyond := [offset for offset in covered if offset >= end]:
        yield f"commits name the rows {beyond}, the input ends at {end}: {parts}"
    if len(standing) == len(written) and (twice := [o for o, count in covered.items() if count > 1]):
        yield f"several commits name the rows {twice}: {parts}"


def _file_groups(table: Snapshot) -> Iterator[str]:
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for partition, file_id in table.groups:
        ids[partition, file_id[:8]].add(file_id)
        if f"{partition}/.hoodie_partition_metadata" not in table.objects:
            yield f"{partition} has file group {file_id} but no partition metadata: readers skip it"
    for place, found in ids.items():
        if len(found) > 1:
            yield f"bucket {place} has several file groups: {sorted(found)}"


def _keys_in_two_groups(table: Snapshot) -> Iterator[str]:
    """Each key of a partition has one file id, and is in a base file once."""
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    in_base: Counter[tuple[str, str]] = Counter()
    for (partition, file_id), part in table.latest.items():
        if f"{partition}/.hoodie_partition_metadata" not in table.objects:
            yield f"{partition} has file group {file_id} but no partition metadata: readers skip it"
        for row in table.merged(part):
            ids[partition, row["_hoodie_record_key"]].add(file_id)
        if part.base is not None:
            in_base.update((part.base.path, each.key) for each in entries_of(part.base, table.objects[part.base.path]))
    for key, found in ids.items():
        if len(found) > 1:
            yield f"key {key} has several file ids: {sorted(found)}"
    for place, count in in_base.items():
        if count > 1:
            yield f"key {place[1]!r} is {count} times in {place[0]}"


def _write_stats(table: Snapshot, undone: AbstractSet[str], *, with_bases: bool) -> Iterator[str]:
    """A pipeline's commit names exactly the files visible by its instant, except those that a clean deleted."""
    instants = table.instants
    for instant in instants.completed.values():
        if instant.request_time in undone or _RANGES not in instant.extra:
            continue
        named = set(named_files(instant.metadata))
        # A scheduler without a lock may give a compaction the same time: its base files are not this instant's.
        there = {file.path for file in table.files if file.instant == instant.request_time}
        if not with_bases or instant.request_time in instants.plans:
            there = {path for path in there if not path.endswith(".parquet")}
            named = {path for path in named if not path.endswith(".parquet")}
        if there - named or (named - there) - instants.cleaned:
            yield f"instant {instant.request_time} names {sorted(named)}, there are {sorted(there)}"


def _canonical(position: Any) -> str:
    return json.dumps(position)
