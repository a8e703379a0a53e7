"""The topic of a schedule: which of its rows are in which partition, and what a position between them means."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from bucketingest.write.instants.source_range import canonical_json
from support.simulation.spec import Row

NAME: Final = "orders"


class Topic:
    """Rows have numbers in the order in which they came. With one partition these are their offsets."""

    def __init__(self, partitions: Sequence[int] = ()) -> None:
        """`partitions`: that of each row; rows beyond are in the first one."""
        self._partitions = partitions
        self._numbers: defaultdict[int, list[int]] = defaultdict(list)
        for number, partition in enumerate(partitions):
            self._numbers[partition].append(number)
        self.is_fresh = False
        """Whether the last micro-batch has only rows of partitions that are new."""
        self._known = 1
        """How many partitions a query has seen: one that is there stays."""

    @classmethod
    def draw(cls, rng: random.Random, rows: Sequence[Row]) -> Topic:
        """New partitions appear now and then. All rows of a key are in one partition."""
        partitions, count = [], 1
        for row in rows:
            if row["id"] is None or row["id"].startswith("h"):
                partitions.append(0)
            elif count < len(rows) // 5 and rng.random() < 0.25:
                partitions.append(count)
                count += 1
            else:
                partitions.append(rng.randrange(count))
        return cls(partitions)

    def numbers(self, start: str | None, end: str) -> tuple[int, ...]:
        """Numbers of the rows between two positions."""
        first, last = offsets(start), offsets(end)
        if not self._partitions:
            return tuple(range(first.get(0, 0), last[0]))
        return tuple(n for each in sorted(last) for n in self._numbers[each][first.get(each, 0) : last[each]])

    def end(self, rows: int) -> str:
        """The position after so many rows."""
        if not self._partitions:
            return position({0: rows})
        return position({each: sum(n < rows for n in numbers) for each, numbers in self._numbers.items()})

    def next(self, rng: random.Random, start: str, most: int, rows: int) -> str:
        """The position at which a micro-batch ends that takes so many rows, at most. A partition that is new since
        the last one may be alone in it, and others may be idle.
        """
        at = offsets(start)
        if not self._partitions:
            return position({0: min(rows, at[0] + most)})
        self.is_fresh = False
        there = [*range(self._known), *([self._known] if self._is_new(self._known, at) else [])]
        left = {each: len(self._numbers[each]) - at.get(each, 0) for each in there}
        busy = [each for each in there if left[each]]
        if len(there) > self._known and rng.random() < 0.8:
            busy, self.is_fresh = there[self._known :], True
        elif rng.random() < 0.5:
            busy = [rng.choice(busy)]
        end = dict.fromkeys(there, 0) | at
        for each in rng.choices(busy, k=most):
            end[each] = min(end[each] + 1, len(self._numbers[each]))
        self._known = max(self._known, len(there))
        return position(end)

    def _is_new(self, partition: int, at: Mapping[int, int]) -> bool:
        """Whether the rows before its first one are read."""
        if partition not in self._numbers:
            return False
        first = self._numbers[partition][0]
        return all(at.get(each, 0) >= sum(n < first for n in self._numbers[each]) for each in range(self._known))


def position(ends: Mapping[int, int]) -> str:
    """The text of a position: the next offset of each partition."""
    return canonical_json({NAME: {str(partition): offset for partition, offset in ends.items()}})


def offsets(text: str | None) -> dict[int, int]:
    """The next offset of each partition that a position knows."""
    known = {} if text is None else json.loads(text)[NAME]
    return {int(partition): int(offset) for partition, offset in known.items()}
