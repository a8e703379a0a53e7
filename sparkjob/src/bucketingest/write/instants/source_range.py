"""A micro-batch's part of the source: this, not Spark's batch id, identifies the micro-batch across restarts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal, Self, TypeAlias

from bucketingest.write.errors import RangeConflict

Offsets: TypeAlias = dict[tuple[str, int], int]
"""(topic, partition) → the next offset."""


class Relation(Enum):
    """How a range relates to the committed source position."""

    NEXT = "next"
    """It starts at the position."""
    DONE = "done"
    """It ends at the position: its rows are in the table."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The part of the source between two positions.

    kind kafka: positions are offsets per topic and partition, the next to be read; they mean the same in every
    checkpoint. kind files: positions are numbers of micro-batches in the log of files beside the table. kind
    checkpoint: positions mean something only together with Spark's checkpoint (generated rows, a user's own query).
    """

    kind: Literal["kafka", "files", "checkpoint"]
    start: str | None
    """JSON of the position at which it starts; None: the source's beginning."""
    end: str
    """JSON of the position before which it ends."""
    query_id: str
    """Id of Spark's checkpoint, or of the log of files."""
    batch_id: int
    """Number of the micro-batch in it."""
    timestamp_ms: int | None = None
    """What `current_timestamp` and `current_date` are in this micro-batch, milliseconds since 1970: with another time
    the same offsets can give other rows. None if it was not recorded.
    """
    topic_ids: str | None = None
    """kind kafka: JSON of topic → the id that Kafka gave it. A topic that was deleted and made again under its name has
    another one, and other rows at the same offsets. Topics are missing whose broker gives none.
    """
    again: str | None = None
    """kind kafka: JSON of the offsets from which keys of dead letters were read again, in a micro-batch that starts and
    ends at the position.
    """

    def to_json(self) -> dict[str, Any]:
        """For intents, the ledger and the commit's extra metadata."""
        record = {
            "kind": self.kind,
            "start": None if self.start is None else json.loads(self.start),
            "end": json.loads(self.end),
            "queryId": self.query_id,
            "batchId": self.batch_id,
        }
        if self.timestamp_ms is not None:
            record["timestampMs"] = self.timestamp_ms
        if self.topic_ids is not None:
            record["topicIds"] = json.loads(self.topic_ids)
        if self.again is not None:
            record["again"] = json.loads(self.again)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """The range that `to_json` described."""
        start, ids, again = record["start"], record.get("topicIds"), record.get("again")
        return cls(
            kind=record["kind"],
            start=None if start is None else canonical_json(start),
            end=canonical_json(record["end"]),
            query_id=record["queryId"],
            batch_id=record["batchId"],
            timestamp_ms=record.get("timestampMs"),
            topic_ids=None if ids is None else canonical_json(ids),
            again=None if again is None else canonical_json(again),
        )

    def same_rows_as(self, other: SourceRange) -> bool:
        """Whether both name exactly the same rows, at the same time."""
        if (self.kind, self.start, self.end) != (other.kind, other.start, other.end):
            return False
        if self.timestamp_ms != other.timestamp_ms or made_again(self, other) is not None:
            return False
        return self.kind == "kafka" or (self.query_id, self.batch_id) == (other.query_id, other.batch_id)


def canonical_json(value: Any) -> str:
    """One text per value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def kafka_offsets(text: str | None) -> Offsets | None:
    """Kafka's offsets as Spark writes them, `{"topic":{"0":17}}`; None if the text is no such thing. Pure."""
    try:
        topics = json.loads(text or "null")
        return {(topic, int(part)): int(offset) for topic, parts in topics.items() for part, offset in parts.items()}
    except (ValueError, TypeError, AttributeError):
        return None


def topic_ids(source_range: SourceRange | None) -> dict[str, str]:
    """The known ids of the range's topics, by their names."""
    return {} if source_range is None or source_range.topic_ids is None else json.loads(source_range.topic_ids)


def made_again(one: SourceRange, other: SourceRange) -> str | None:
    """A topic that has another id in the other range. One whose id either does not know counts as the same."""
    ids, others = topic_ids(one), topic_ids(other)
    return next((topic for topic in sorted(ids.keys() & others.keys()) if ids[topic] != others[topic]), None)


def relate(micro_batch: SourceRange, position: SourceRange | None) -> Relation:
    """How a micro-batch relates to the last range that the table has; None: the table has none of this pipeline.

    Raises RangeConflict if it is neither next nor done: writing it would duplicate or lose rows.
    """
    if position is None:
        return Relation.NEXT
    if micro_batch.kind != position.kind:
        raise RangeConflict(
            f"the table was last fed from a {position.kind} source, this one is {micro_batch.kind}: "
            "a pipeline keeps its source; give the new one another name"
        )
    if micro_batch.kind == "kafka":
        if (topic := made_again(micro_batch, position)) is not None:
            raise another_topic(topic, topic_ids(position)[topic], topic_ids(micro_batch)[topic])
        return _relate_offsets(micro_batch, position)
    return _relate_batches(micro_batch, position)


def before(source_range: SourceRange) -> SourceRange | None:
    """The position at which a range starts, as a range that ends there; None for the source's beginning."""
    if source_range.start is None:
        return None
    return replace(source_range, start=None, end=source_range.start, batch_id=source_range.batch_id - 1)


def same_end(one: SourceRange | None, other: SourceRange | None) -> bool:
    """Whether two positions are the same place in the source."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or one.end != other.end:
        return False
    return one.kind == "kafka" or (one.query_id, one.batch_id) == (other.query_id, other.batch_id)


def begins_after(source_range: SourceRange, position: SourceRange | None) -> bool:
    """Whether rows lie between the position and the range. A partition that is new is not in the range's start, so one
    that is there, and that the position does not know, was read by a range between the two.
    """
    if position is None:
        return source_range.start is not None
    if source_range.kind != position.kind:
        return False
    if source_range.kind != "kafka":
        return source_range.query_id == position.query_id and source_range.batch_id > position.batch_id + 1
    known = _offsets(position.end)
    starts = _offsets(source_range.start) if source_range.start else {}
    return any(start > known.get(partition, 0) for partition, start in starts.items())


def reaches_beyond(source_range: SourceRange, position: SourceRange | None) -> bool:
    """Whether the range has rows after the position."""
    if position is None or source_range.kind != position.kind:
        return True
    if source_range.kind != "kafka":
        return source_range.query_id != position.query_id or source_range.batch_id > position.batch_id
    known = _offsets(position.end)
    return any(end > known.get(partition, 0) for partition, end in _offsets(source_range.end).items())


_LISTS: Final = {"files": "the log of files", "checkpoint": "the checkpoint"}
"""What numbers micro-batches, in words."""


def _relate_batches(micro_batch: SourceRange, position: SourceRange) -> Relation:
    if micro_batch.query_id != position.query_id:
        raise RangeConflict(
            f"the table has the rows up to micro-batch {position.batch_id} of {_LISTS[position.kind]} "
            f"{position.query_id}, but this is {micro_batch.query_id}: it was lost or replaced, and this source cannot "
            "be positioned without it. Restore it, or give the pipeline another name to ingest everything "
            "again"
        )
    if micro_batch.batch_id == position.batch_id and micro_batch.end != position.end:
        raise RangeConflict(
            f"micro-batch {micro_batch.batch_id} ended at {position.end} when it was committed and now ends at "
            f"{micro_batch.end}: {_LISTS[position.kind]} was rewound. Restore it, or give the pipeline another name"
        )
    if micro_batch.batch_id > position.batch_id + 1:
        raise RangeConflict(
            f"the table has the rows up to micro-batch {position.batch_id} of {_LISTS[position.kind]}, and the "
            f"source continued with micro-batch {micro_batch.batch_id}: the rows between would be lost. Restore it, "
            "or give the pipeline another name to ingest everything again"
        )
    return Relation.DONE if micro_batch.batch_id <= position.batch_id else Relation.NEXT


def _relate_offsets(micro_batch: SourceRange, position: SourceRange) -> Relation:
    starts = _offsets(micro_batch.start) if micro_batch.start else {}
    committed = _offsets(position.end)
    relations: set[Relation] = set()
    for partition, end in _offsets(micro_batch.end).items():
        start, known = starts.get(partition, 0), committed.get(partition, 0)
        if end < start or end < known:
            raise _went_back(partition, start, end, known)
        if start == end == known:
            continue  # the micro-batch has nothing of this partition
        if end == known:  # a committed micro-batch comes again exactly as it was: it ends where the table does
            relations.add(Relation.DONE)
        elif start == known:
            relations.add(Relation.NEXT)
        else:
            raise _offset_conflict(partition, start, end, known)
    if {Relation.DONE, Relation.NEXT} <= relations:
        raise RangeConflict(
            f"the micro-batch up to {micro_batch.end} is committed for some partitions of the topic and not for "
            f"others; the table has {position.end}. Start again: each start continues from the table"
        )
    return Relation.NEXT if Relation.NEXT in relations else Relation.DONE


def another_topic(topic: str, known: str, now: str) -> RangeConflict:
    """The error for a topic that is no longer the one that the table's offsets are of. `known`, `now`: ids."""
    return RangeConflict(
        f"topic {topic} was deleted and made again: the table has offsets of the topic with id {known}, and Kafka has "
        f"the topic {topic} with id {now} now, whose messages are not in the table. Give the pipeline another name to "
        'ingest all of them (runbook "BucketIngestStalled", "SourceConflict: the topic was recreated")'
    )


def _went_back(partition: tuple[str, int], start: int, end: int, known: int) -> RangeConflict:
    return RangeConflict(
        f"topic {partition[0]} partition {partition[1]}: the offsets went back: the table has everything before offset "
        f"{known}, the micro-batch is {start} to {end}. The topic was deleted and created again, or truncated, and "
        "its rows are not in the table: give the pipeline another name to ingest all of them"
    )


def _offset_conflict(partition: tuple[str, int], start: int, end: int, known: int) -> RangeConflict:
    what = "would be ingested twice" if start < known else "would be lost"
    first, last = min(start, known), max(start, known)
    return RangeConflict(
        f"topic {partition[0]} partition {partition[1]}: the table has everything before offset {known}, the "
        f"micro-batch is {start} to {end}; offsets {first} to {last - 1} {what}. Start again: each "
        "start continues from the table; if the topic was created again, give the pipeline another name"
    )


def _offsets(position: str) -> Offsets:
    offsets = kafka_offsets(position)
    if offsets is None:
        raise RangeConflict(
            f"the position {position} is not one of Kafka's, but this pipeline's source is Kafka: a pipeline "
            "keeps its source; give the new one another name"
        )
    return offsets
