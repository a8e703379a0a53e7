"""The position after random histories of a pipeline: partitions appear, and instants are lost, some without a trace."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from bucketingest.write.instants.position import Written, position_after
from bucketingest.write.instants.source_range import SourceRange, canonical_json, kafka_offsets

CHAINS = 100
"""Of each seed."""
Offsets = dict[str, int]


def text(offsets: Offsets) -> str:
    return canonical_json({"orders": offsets})


@dataclass
class History:
    """A topic, and the instants of the pipeline that reads it."""

    choices: random.Random
    instants: list[Written] = field(default_factory=list)
    """What the timeline shows, oldest first."""
    counted: list[str] = field(default_factory=list)
    """Instants whose rows count, oldest first: each continues the one before."""
    before: dict[str, Offsets] = field(default_factory=dict)
    """Where each instant began."""
    end: Offsets = field(default_factory=lambda: {"0": 0})

    def ingest(self) -> None:
        """An instant of one or two micro-batches: some partitions have rows, and one may
        appear, with rows or none.
        """
        name = str(len(self.before))
        self.before[name] = dict(self.end)
        ranges = []
        for _ in range(self.choices.randint(1, 2)):
            start, end = text(self.end), dict(self.end)
            appears = len(end) < 4 and self.choices.random() < 0.3
            if appears:
                end[str(len(end))] = self.choices.choice([0, 1, 3])
            for partition in self.end:
                end[partition] += self.choices.choice([0, 0, 1, 2])
            if sum(end.values()) == sum(self.end.values()):  # Spark makes no micro-batch without a row
                end["0"] += 1
            ranges.append(SourceRange("kafka", start, text(end), "query", len(self.before)))
            self.end = end
        self.instants.append(Written(name, tuple(ranges)))
        self.counted.append(name)

    def lose(self) -> None:
        """Another writer takes an instant out. Of the first one a rollback is left, as nothing comes before it."""
        at = self.choices.randrange(len(self.instants))
        taken = self.instants[at]
        if at and self.choices.random() < 0.5:
            del self.instants[at]
        else:
            self.instants[at] = Written(taken.request_time, taken.ranges, rolled_back=True)
        if taken.request_time in self.counted:
            first = self.counted.index(taken.request_time)
            self.end = self.before[taken.request_time]
            del self.counted[first:]


@pytest.mark.parametrize("seed", range(20))
def test_a_start_continues_where_the_first_row_is_missing(seed: int) -> None:
    for number in range(CHAINS):
        history = History(random.Random(f"{seed}/{number}"))
        for _ in range(history.choices.randint(1, 3)):  # a start, its instants, and losses up to the next start
            for _ in range(history.choices.randint(1, 5)):
                history.ingest()
            for _ in range(history.choices.choice([0, 1, 1, 2])):
                history.lose()
            found = position_after(reversed(history.instants)).end
            begins = {("orders", int(partition)): offset for partition, offset in history.end.items() if offset}
            known = {} if found is None else kafka_offsets(found.end)
            assert known is not None
            assert {each: offset for each, offset in known.items() if offset} == begins, f"{seed}/{number}: {history}"
