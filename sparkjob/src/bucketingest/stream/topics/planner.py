"""Plans the micro-batches of a pipeline whose commits are less than a second apart, or have whole transactions. To plan
one, Spark writes and renames eight files of its checkpoint; here the table's position and the brokers say what is next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from bucketingest.stream.topics.batch import TopicBatch, next_range, ranges_of, starts
from bucketingest.stream.topics.continuity import offsets_of, text_of
from bucketingest.stream.topics.reading import TopicsRead
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.write.instants.source_range import Offsets, SourceRange, before, kafka_offsets


class TopicsPlanner:
    """Says what comes next, and afterwards which source range it was. Used by one thread at a time."""

    def __init__(
        self,
        topics: TopicsRead,
        position: Callable[[], SourceRange | None],
        replay: SourceRange | None,
        *,
        most: int,
        tell: Callable[[Offsets, Offsets], None],
        whole: WholeTransactions | None = None,
    ) -> None:
        """`position`: of the table. `replay`: comes first, as an earlier attempt has started it. `most`: offsets of a
        micro-batch. `tell`: is told at each look where partitions end, and where those begin that the position lacks.
        `whole`: where micro-batches may end; None: anywhere.
        """
        self._topics = topics
        self._position = position
        self._replay = replay
        self._most = most
        self._tell = tell
        self._whole = whole
        self._planned: SourceRange | None = replay

    def next(self) -> TopicBatch | None:
        """The next micro-batch; None if there is nothing new. Raises as `TopicsRead.ends` and `begins`."""
        wanted, self._replay = self._replay, None
        if wanted is None:
            position = self._topics.read_of(self._position())
            ends = self._topics.ends(position)
            begins = self._topics.begins(ends.keys() - offsets_of(position).keys(), position)
            wanted = next_range(position, begins, ends, self._most, int(time.time() * 1000))
            if self._whole is not None:
                known = starts(position, begins)
                until = self._whole.until(known, offsets_of(wanted), ends)
                wanted = replace(wanted, end=text_of(offsets_of(wanted) | until))
                # What waits for its end is no lag, as with Kafka's own transactions.
                ends = {place: at if until[place] > known[place] else until[place] for place, at in ends.items()}
            self._tell(ends, begins)
        else:
            new = offsets_of(wanted).keys() - (kafka_offsets(wanted.start) or {}).keys()
            begins = self._topics.begins(new, before(wanted))
        if not (ranges := ranges_of(wanted, begins)):
            return None
        self._planned = self._topics.identified(wanted)
        return self._topics.batch(self._planned, ranges)

    def range_of(self, batch_id: int) -> SourceRange:  # noqa: ARG002 - there is one at a time
        """The micro-batch that is being written."""
        assert self._planned is not None, "it is planned"
        return self._planned

    def confirm(self, source_range: SourceRange) -> None:
        """As `TopicsRead.confirm`."""
        self._topics.confirm(source_range)
