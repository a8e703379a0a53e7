"""What of each topic the next tasks read: what there is, what is due, and how much of it, so that the backlog of one
topic does not keep the others waiting. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.topics import batch
from bucketingest.stream.topics.continuity import offsets_of, without
from bucketingest.write.instants.source_range import Offsets, SourceRange, topic_ids

Name = TypeVar("Name")
_SHARE_FULL: Final = 4
"""With one of so many parts of a micro-batch's offsets waiting, a table is due before its interval has passed."""


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """What the brokers said of one topic. Offsets by partition."""

    id: str
    """"" if the brokers give none."""
    begins: dict[int, int]
    """As of the last list of topics."""
    ends: dict[int, int]
    """Up to which messages may be read: with read_committed before the first open transaction."""
    silent: str = ""
    """Why the topic's offsets cannot be had; there are none then."""


def fair_shares(waiting: Mapping[Name, int], most: int) -> dict[Name, int]:
    """Of so many offsets that wait, how many each gets of the `most` in all: whoever needs less than an equal share
    gets all, and the others have what that leaves.
    """
    left, found = most, {}
    for count, (name, wanted) in enumerate(sorted(waiting.items(), key=lambda item: item[1])):
        found[name] = min(wanted, max(1, left // (len(waiting) - count)))
        left -= found[name]
    return found


def due(amounts: Mapping[Name, int], ages: Mapping[Name, float], *, interval: float, most: int) -> dict[Name, int]:
    """The tables that are written now, with their shares. `amounts`: offsets that wait; `ages`: seconds since each was
    last written. One that is due takes those along that would be due within half an interval: they share a job.
    """
    full = [name for name, amount in amounts.items() if amount * _SHARE_FULL >= most]
    if not full and not any(amounts[name] and ages[name] >= interval for name in amounts):
        return {}
    chosen = {
        name: amount for name, amount in amounts.items() if amount and (ages[name] >= interval / 2 or name in full)
    }
    return fair_shares(chosen, most)


def waiting(position: SourceRange | None, topic: str, now: TopicOffsets) -> int:
    """How many offsets the table lacks."""
    start = batch.starts(position, _places(topic, now.begins))
    return sum(max(0, end - start[place]) for place, end in _places(topic, now.ends).items())


def went_back(position: SourceRange | None, topic: str, now: TopicOffsets) -> bool:
    """Whether the table has more than its topic, or another topic has its name: it is looked into though nothing
    waits, because soon the topic may reach beyond the position with messages that nobody would miss.
    """
    if now.id and topic_ids(position).get(topic, now.id) != now.id:
        return True
    known = offsets_of(position)
    return any(end < known.get(place, 0) for place, end in _places(topic, now.ends).items())


def next_range(
    position: SourceRange | None, topic: str, now: TopicOffsets, share: int, timestamp_ms: int
) -> SourceRange:
    """The next micro-batch of a table, as `batch.next_range`, of its topic alone."""
    if position is not None:
        position = without(position, {place: at for place, at in offsets_of(position).items() if place[0] != topic})
    begins, ends = _places(topic, now.begins), _places(topic, now.ends)
    return batch.next_range(position, begins, ends, share, timestamp_ms)


def ranges_of(source_range: SourceRange, topic: str, begins: Mapping[int, int]) -> list[TopicRange]:
    """What tasks read of a micro-batch."""
    return [each for each in batch.ranges_of(source_range, _places(topic, begins)) if each.topic == topic]


def _places(topic: str, offsets: Mapping[int, int]) -> Offsets:
    return {(topic, part): at for part, at in offsets.items()}
