"""A retry: some files of dead letters at a time become rows in a commit of their own, then leave the dead-letter table.

It holds the table's lease, so the pipeline does not run. A kill before the commit leaves all as it was: no start
resumes such an instant. A kill after it leaves letters that are rows already, which the next retry writes again, as
they are. The commit's range says from which offsets on keys were read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

import pyarrow as pa

from bucketingest.decode.debezium.events import TruncatedAt
from bucketingest.decode.kafka.message import KEY, OFFSET, VALUE
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.storage import Storage
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.retry.letters import Asked, LetterFile, Place, instants_of, others_until, rounds, take_out
from bucketingest.stream.retry.replay import Judged, OnlyKeys, only
from bucketingest.stream.source.columns_schema import SchemaGrown
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.topics.continuity import text_of
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import ColumnsChanged, ConflictingAttempt, InstantAborted
from bucketingest.write.instants.source_range import Offsets, SourceRange, kafka_offsets
from bucketingest.write.open_table import OpenTable
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 3
"""How often a commit is tried, each time in a new instant: the second time with the keys of all its partitions."""
_CHANGES_MAX: Final = 3
"""How often other writers may change the table's columns meanwhile."""
_NOT_A_MESSAGE: Final = "it is no message of the topics that the table is fed from"
_GONE: Final = "its message is no longer in the topic, so nobody knows what came after it"
_UNORDERED: Final = "and table.orderingField is not set, or rows are deleted: nothing says what came after it"
_NO_ORDER: Final = f"its message has no key, the topic has several partitions, {_UNORDERED}"
_OTHERS_WROTE: Final = f"another writer or pipeline has written into the table since, {_UNORDERED}"

_OTHERS: Final = "other reasons"
REASONS_MAX: Final = 20

_NO_INSTANT: Final = Assignment(
    "", 1, FileIds(BucketCounts(1, ())), PartitionNumbers.of([]), datetime.fromtimestamp(0, UTC)
)
"""Its plan says which rows have a place."""

Letters: TypeAlias = Mapping[tuple[str, int], dict[int, bytes | None]]
"""By topic and partition: the values of letters, by their offsets."""
Reads: TypeAlias = Callable[[TopicRange, tuple[str, ...]], Iterator[pa.RecordBatch]]
Writes: TypeAlias = Callable[[Sequence[TopicRange], WritePlan, MessageDecoder], Sequence[WriteStatus]]
Decoding: TypeAlias = Callable[[Sequence[TopicRange], Callable[[MessageDecoder], list[WriteStatus]]], None]
"""Calls a function with a decoder that knows all schemas of the ranges, perhaps again with a better one."""


@dataclass(slots=True)
class Outcome:
    """What a retry did, or would do."""

    asked: int = 0
    """Letters; a message that SQL made several rows of may have several."""
    retried: int = 0
    stay: dict[str, int] = field(default_factory=dict)
    """Letters that stay, by why."""
    commits: list[str] = field(default_factory=list)
    """Request times."""

    def done(self) -> Outcome:
        """Without the letters that are still there, which are looked at again."""
        return Outcome(self.retried, self.retried, {}, self.commits) if self.commits else Outcome()


@dataclass(frozen=True, slots=True)
class Retry:
    """A started coordinator, none of whose instants is open, and what it needs to write letters again."""

    pipeline: Pipeline
    opened: OpenTable
    tasks: int
    coordinator: InstantCoordinator
    letters: Sequence[Storage]
    begins: Offsets
    """Of the topics as they are now."""
    reads: Reads
    writes: Writes
    decoding: Decoding
    confirm: Callable[[SourceRange], None]
    """Raises RangeConflict unless the topics are still those that the range names."""
    appends: bool
    """Whether each message has a key of its own, so that nothing came since."""

    def run(self, asked: Asked, outcome: Outcome, *, dry_run: bool) -> None:
        """As `retry_all`, and add them to the outcome. Raises SchemaGrown and ColumnsChanged, too, before the table has
        anything of the round; `Outcome.done` then has the rounds before it.
        """
        for files in rounds(self.letters, asked, instants_of(self.opened.storage, self.pipeline.name)):
            self._round(files, outcome, dry_run=dry_run)

    def _round(self, files: Sequence[LetterFile], outcome: Outcome, *, dry_run: bool) -> None:
        position = self.coordinator.position
        ends = (None if position is None else kafka_offsets(position.end)) or {}
        letters, why_not = self._sorted(files, ends)
        judged, instant = Judged(), ""
        ranges = [TopicRange(*place, min(found), ends[place]) for place, found in letters.items()]
        if self.appends:
            ranges = [each._replace(until=max(letters[each[:2]]) + 1) for each in ranges]

        def write(decoder: MessageDecoder) -> list[WriteStatus]:
            nonlocal judged, instant
            judged = self._judged(letters, decoder)
            if not dry_run and judged.rows_now and position is not None:
                instant = self._commit(_again(position, ranges), ranges, judged, decoder)
            return []

        if ranges:
            self.decoding(ranges, write)
        if instant:
            outcome.commits.append(instant)
            take_out(files, judged.rows_now, self.pipeline.name, instant)
        _count(files, judged, why_not, outcome)

    def _sorted(self, files: Sequence[LetterFile], ends: Offsets) -> tuple[Letters, dict[Place, str]]:
        """Letters whose messages may be read, and why others may not."""
        letters: dict[tuple[str, int], dict[int, bytes | None]] = {}
        why_not: dict[Place, str] = {}
        several = {topic for topic, partition in ends if partition}
        # Of a delete nothing is left after a compaction, also not what it was ordered by.
        is_ordered = self.pipeline.definition.ordering_field is not None and self.pipeline.delete_when is None
        has_order = self.appends or is_ordered
        until = "" if has_order else others_until(self.opened.storage, self.pipeline.name, files[0].instant)
        for file in files:
            values, keys = file.letters[VALUE].to_pylist(), file.letters[KEY].to_pylist()
            for wanted, place, value, key in zip(file.wanted.tolist(), file.places, values, keys, strict=True):
                if not wanted or place is None:
                    continue
                begin = self.begins.get(place[:2])
                if begin is None or ends.get(place[:2], 0) <= place[2]:
                    why_not[place] = _NOT_A_MESSAGE
                elif place[2] < begin:
                    why_not[place] = _GONE
                elif key is None and place[0] in several and not has_order:
                    why_not[place] = _NO_ORDER
                elif file.instant <= until:
                    why_not[place] = _OTHERS_WROTE
                else:
                    letters.setdefault(place[:2], {})[place[2]] = value
        return letters, why_not

    def _judged(self, letters: Letters, decoder: MessageDecoder) -> Judged:
        judged = Judged()
        plan = self._plan(_NO_INSTANT)
        columns = tuple(dict.fromkeys([VALUE, *decoder.needs, OFFSET]))
        for (topic, partition), found in letters.items():
            of = TopicRange(topic, partition, min(found), max(found) + 1)
            judged.add(only(self.reads(of, columns), found), of, decoder, plan)
        return judged

    def _commit(self, again: SourceRange, ranges: Sequence[TopicRange], judged: Judged, decoder: MessageDecoder) -> str:
        """Returns the instant."""
        keys = pa.chunked_array(judged.keys, pa.string()).unique()
        history = OnlyKeys.of(decoder, self.opened.rules.record_key, keys)

        def write(assignment: Assignment) -> Sequence[WriteStatus]:
            statuses = self._written(ranges, self._plan(assignment), history)
            self.confirm(again)  # it may have taken hours
            return statuses

        for left in reversed(range(_ROUNDS_MAX)):
            try:
                ran = self.coordinator.run(again, write)
                self.coordinator.commit_open()
            except (InstantAborted, ConflictingAttempt) as error:
                if not left:
                    raise
                log.warning("written again in a new instant", extra={"reason": str(error), "rounds_left": left})
            else:
                assert ran.instant_time is not None, "rows that are written again have an instant"
                return ran.instant_time
        raise AssertionError("the last round returns or raises")

    def _written(self, ranges: Sequence[TopicRange], plan: WritePlan, history: OnlyKeys) -> Sequence[WriteStatus]:
        while True:
            try:
                statuses = self.writes(ranges, plan, history)
            except TruncatedAt as found:  # before anything was written; what came before it is no longer there
                if len(ranges) > 1:
                    raise
                ranges = [ranges[0]._replace(start=found.offset + 1)]
            else:
                return [replace(each, undecoded=0) for each in statuses]

    def _plan(self, assignment: Assignment) -> WritePlan:
        return self.pipeline.plan(self.opened, assignment, self.tasks)


def retry_all(retry: Retry, again: Callable[[SchemaGrown | None], Retry], asked: Asked, *, dry_run: bool) -> Outcome:
    """Retry all letters that are asked for. `again`: opens the table once more, with more columns or with those that it
    has by now. Raises RowsInDoubt, TopicInDoubt, TruncatedAt, and as a micro-batch does.
    """
    outcome, changes_left = Outcome(), _CHANGES_MAX
    while True:
        grown = None
        try:
            retry.run(asked, outcome, dry_run=dry_run)
        except SchemaGrown as found:  # of each schema once: the table takes its fields, or they are refused
            grown = found
        except ColumnsChanged:
            if not (changes_left := changes_left - 1):
                raise
        else:
            return outcome
        outcome = outcome.done()
        retry = again(grown)


def _count(files: Sequence[LetterFile], judged: Judged, why_not: Mapping[Place, str], outcome: Outcome) -> None:
    known = {**why_not, **judged.refused}
    for file in files:
        for wanted, place in zip(file.wanted.tolist(), file.places, strict=True):
            if not wanted:
                continue
            outcome.asked += 1
            if place in judged.rows_now:
                outcome.retried += 1
                continue
            why = _NOT_A_MESSAGE if place is None else known.get(place, _GONE)
            why = why if why in outcome.stay or len(outcome.stay) < REASONS_MAX else _OTHERS
            outcome.stay[why] = outcome.stay.get(why, 0) + 1


def _again(position: SourceRange, ranges: Sequence[TopicRange]) -> SourceRange:
    """The micro-batch of a retry: it starts and ends at the position."""
    starts = {(each.topic, each.partition): each.start for each in ranges}
    return replace(position, start=position.end, timestamp_ms=None, again=text_of(starts))
