"""A micro-batch of Kafka's messages that is planned here and not by Spark: which offsets it has, and which of them are
read where. Pure, but for rows that Spark is to read after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.topics.continuity import offsets_of, text_of
from bucketingest.write.instants.source_range import Offsets, SourceRange, kafka_offsets


@dataclass(frozen=True)
class TopicBatch:
    """The messages of a source range."""

    source_range: SourceRange
    ranges: Sequence[TopicRange]
    session: SparkSession
    read: Callable[[Sequence[TopicRange]], DataFrame]

    @cached_property
    def rows(self) -> DataFrame:
        """For what needs Spark to read them. Nothing is read yet; to make it takes some milliseconds."""
        return self.read(self.ranges)


def starts(position: SourceRange | None, begins: Offsets) -> Offsets:
    """From where each partition is read; one that the position does not name from its beginning."""
    return begins | offsets_of(position)


def next_range(
    position: SourceRange | None, begins: Offsets, ends: Offsets, most: int, timestamp_ms: int
) -> SourceRange:
    """The next micro-batch: at most about so many offsets, of each partition in proportion to what waits. `begins`: of
    the partitions that the position does not name.
    """
    known = starts(position, begins)
    left = {place: max(0, end - known[place]) for place, end in ends.items()}
    total = max(1, sum(left.values()))
    taken = {place: known[place] + min(count, -(-count * most // total)) for place, count in left.items()}
    before = known if position is None else offsets_of(position)
    return SourceRange(
        kind="kafka",
        start=text_of(before),
        end=text_of(before | taken),
        query_id="planned here",
        batch_id=0 if position is None else position.batch_id + 1,
        timestamp_ms=timestamp_ms,
    )


def ranges_of(source_range: SourceRange, begins: Offsets) -> list[TopicRange]:
    """What is read of a micro-batch, by topic and partition: of a partition that is new to its start, from the
    beginning.
    """
    start: Offsets = kafka_offsets(source_range.start) or {}
    found = []
    for place, end in sorted((kafka_offsets(source_range.end) or {}).items()):
        begin = start.get(place, begins.get(place, 0))
        if end > begin:
            found.append(TopicRange(*place, begin, end))
    return found
