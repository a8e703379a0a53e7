"""Whether Kafka still has what follows the table's position: the same topics, and every message since. What is gone is
said with its place and its number, because Spark and Kafka's client say neither. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bucketingest.stream.errors import SourceDataLost
from bucketingest.write.instants.source_range import (
    Offsets,
    SourceRange,
    another_topic,
    canonical_json,
    kafka_offsets,
    topic_ids,
)

_PAGE: Final = 'runbook "BucketIngestStalled", "SourceDataLost"'
_SHOWN: Final = 5


def text_of(offsets: Offsets) -> str:
    """As a source range has them."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, {})[str(partition)] = offset
    return canonical_json(topics)


def offsets_of(position: SourceRange | None) -> Offsets:
    """Where each partition is continued; nothing of a pipeline that has not begun."""
    return {} if position is None else kafka_offsets(position.end) or {}


def check_same_topics(position: SourceRange | None, now: Mapping[str, str]) -> None:
    """Raises RangeConflict if a topic of the position has another id now. `now`: "" where the broker gives none."""
    for topic, known in sorted(topic_ids(position).items()):
        if now.get(topic, "") not in {"", known}:
            raise another_topic(topic, known, now[topic])


def deleted(position: SourceRange | None, missing: tuple[str, ...]) -> SourceDataLost | None:
    """The error for topics that Kafka lacks, and whose messages the table has in part."""
    known = {topic for topic, _ in offsets_of(position)}
    lost = sorted(known.intersection(missing))
    if not lost:
        return None
    return SourceDataLost(
        f"the topic {', '.join(lost)} was deleted: how many of its messages were not ingested yet, nobody knows. If "
        f"the owners of the data accept that, take it out of spec.source.kafka.topics ({_PAGE})"
    )


def eaten(position: Offsets, begins: Offsets) -> SourceDataLost | None:
    """The error for messages after the position that the topics no longer have. A partition that one of its topics has
    more than the position began at 0.
    """
    topics = {topic for topic, _ in position}
    expected = {place: 0 for place in begins if place[0] in topics} | position
    lost = {place: (at, begins[place]) for place, at in sorted(expected.items()) if begins.get(place, 0) > at}
    if not lost:
        return None
    count = sum(first - at for at, first in lost.values())
    said = [
        f"topic {topic} partition {partition}: offsets {at} to {first - 1}"
        for (topic, partition), (at, first) in list(lost.items())[:_SHOWN]
    ]
    if len(lost) > _SHOWN:
        said.append(f"and of {len(lost) - _SHOWN} more partitions")
    return SourceDataLost(
        f"Kafka no longer has messages that were not ingested, at most {count}: {'; '.join(said)} are gone, by "
        f'retention or by hand. If the owners of the data accept the loss, set failOnDataLoss: "false" in '
        f"spec.source.kafka.options until the next commit ({_PAGE})"
    )


def behind(position: Offsets, ends: Offsets) -> SourceDataLost | None:
    """The error for a partition that ends before the position."""
    for (topic, partition), at in sorted(position.items()):
        end = ends.get((topic, partition), at)
        if end < at:
            return SourceDataLost(
                f"topic {topic} partition {partition} ends at offset {end}, and the table has everything before {at}: "
                "the topic was truncated, as by an unclean leader election, or made again by a broker that gives "
                f"topics no id. Its next messages would come at offsets that the table has ({_PAGE})"
            )
    return None


def held_back(position: Offsets, stable: Offsets) -> str | None:
    """A partition whose position lies behind the start of an open transaction; it cannot be continued yet."""
    for (topic, partition), at in sorted(position.items()):
        if (end := stable.get((topic, partition), at)) < at:
            return (
                f"topic {topic} partition {partition}: the table has messages up to offset {at}, written with another "
                f"kafka.isolation.level, and a transaction is open since offset {end}. Reading goes on when it ends"
            )
    return None


def without(source_range: SourceRange, left: Offsets) -> SourceRange:
    """The range as the source sees it that no longer reads these partitions."""
    if not left:
        return source_range
    start = None if source_range.start is None else text_of(_less(source_range.start, left))
    return replace(source_range, start=start, end=text_of(_less(source_range.end, left)))


def within(source_range: SourceRange, left: Offsets, ids: Mapping[str, str]) -> SourceRange:
    """The range with the partitions that the source no longer reads, so that the position keeps them, and with the ids
    of its topics.
    """
    if source_range.kind != "kafka":
        return source_range
    start = source_range.start
    if left:
        start = None if start is None else text_of({**left, **(kafka_offsets(start) or {})})
        source_range = replace(
            source_range, start=start, end=text_of({**left, **(kafka_offsets(source_range.end) or {})})
        )
    names = {topic for topic, _ in kafka_offsets(source_range.end) or {}}
    known = {topic: ids[topic] for topic in names if ids.get(topic)}
    return replace(source_range, topic_ids=canonical_json(known) if known else None)


def _less(position: str, left: Offsets) -> Offsets:
    return {place: at for place, at in (kafka_offsets(position) or {}).items() if place not in left}
