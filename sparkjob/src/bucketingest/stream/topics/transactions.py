"""Ends micro-batches where transactions of the database end (`commit.at: transaction`). Only the last messages of a
micro-batch are looked at, and the ENDs of about the same time on the transaction topic; what has no end yet waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Self

from pyspark.sql import SparkSession

from bucketingest.decode.debezium.transactions import (
    Run,
    end_of_last,
    is_unmarked,
    joined,
    run_of,
)
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reading_choice import reading_of
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.spec.fields.source_secret import ISOLATION, source_options
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable, TopicsMissing, TransactionIncomplete
from bucketingest.stream.topics.brokers import Brokers
from bucketingest.stream.topics.ends import Ends, KnownEnds, Parse, Read, messages_of, parser_of
from bucketingest.write.instants.source_range import Offsets

log = logging.getLogger(__name__)

WINDOW: Final = 256
"""Messages that are looked at first; then four times as many before them, and so on."""
RUNS_MAX: Final = 10_000
"""Transactions, the newest of a micro-batch, one of which must have an END that is known."""
TRIED: Final = 8
"""Transactions, the newest of a look, whose ENDs are searched for."""
BACK_MAX: Final = 20_000
"""Messages that are looked at to find a transaction."""
_ANSWER_SECONDS: Final = 10.0
_SEVERAL: Final = (
    "spec.commit.at is transaction, and the topic has several partitions: nothing says where in each of them a "
    "transaction ends. Give the topic one partition, or set spec.commit.at to any"
)
_LACKS: Final = (
    "Kafka lacks the topic {}: set Debezium's provide.transaction.metadata=true, or name the topic in "
    "spec.commit.transactionTopic"
)
_LOOK_AT: Final = (
    "Does Debezium run? Is spec.commit.transactionTopic right, does it keep its messages as long as this topic, and is "
    "neither compacted? To commit what there is, set spec.commit.at to any for a while"
)


@dataclass(slots=True)
class _Seen:
    """The messages from `low` to `high` that were looked at."""

    begin: int
    low: int
    high: int
    runs: list[Run] = field(default_factory=list)


class WholeTransactions:
    """Says where micro-batches end. Used by one thread at a time."""

    def __init__(
        self,
        ends: KnownEnds,
        read: Read,
        parse: Parse,
        *,
        wait_seconds: float,
        tell: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = forward_seconds,
    ) -> None:
        """`wait_seconds`: so long nothing may come of a transaction that has not ended. `tell`: for how long one has
        waited.
        """
        self._ends, self._read, self._parse = ends, read, parse
        self._wait, self._tell, self._clock = wait_seconds, tell, clock
        self._seen: _Seen | None = None
        self._waits: tuple[object, float] | None = None
        self._told = False

    @classmethod
    def of(
        cls, session: SparkSession, resource: BucketIngest, tell: Callable[[float], None] = lambda _: None
    ) -> Self | None:
        """Of a resource; None if its commits may be anywhere. Raises SourceOptionsRefused, SpecError."""
        kafka, commit = resource.spec.source.kafka, resource.spec.commit
        if commit.at != "transaction" or kafka is None or not kafka.topics:
            return None
        reading = reading_of(resource, dict(session.sparkContext.getConf().getAll()))
        if reading is None or reading.client is None:
            why = "" if reading is None else reading.why
            raise SourceOptionsRefused(f"spec.commit.at is transaction, and the driver cannot read Kafka itself: {why}")
        options = {name.lower(): str(value) for name, value in source_options(kafka).items()}
        name = commit.transaction_topic or f"{kafka.topics[0].partition('.')[0]}.transaction"
        brokers = Brokers(session, kafka.model_copy(update={"topics": (name,)}), _ANSWER_SECONDS)
        reads, parse = partial(messages_of, reading.client), parser_of(resource)
        ends = Ends(brokers, reads, parse, stable=options[ISOLATION].lower() == "read_committed")
        return cls(ends, reads, parse, wait_seconds=commit.transaction_wait.total_seconds(), tell=tell)

    def until(self, begin: Mapping[tuple[str, int], int], wanted: Offsets, ends: Offsets) -> Offsets:
        """Where a micro-batch ends that would end at `wanted`: before, or behind that if a transaction is longer. At
        its `begin` if no end is known yet. `ends`: of the topic, now.

        Raises TransactionIncomplete, SourceUnreachable, SourceOptionsRefused if the topic has several partitions.
        """
        if len(ends) != 1:
            raise SourceOptionsRefused(_SEVERAL)
        ((place, end),) = ends.items()
        with _named():
            return {place: self._until(place, begin[place], wanted[place], end)}

    def last(self, place: tuple[str, int], begin: int, at: int) -> Run | None:
        """The last events of a transaction before an offset, or if there are none those of no transaction; None if
        there are no events. Of long rows of a snapshot only the last ones are looked at. `begin`: of the partition.

        Raises SourceUnreachable.
        """
        seen, step, found = self._seen, WINDOW, None
        runs: list[Run] = []
        low = at
        if seen is not None and (at == seen.high or any(run.offset == at for run in seen.runs)):
            runs, low = [run for run in seen.runs if run.offset < at], min(at, seen.low)
        with _named():
            while (found := _newest(runs) or found) is None or found.id is None:
                if low <= begin or at - low >= BACK_MAX:
                    return found
                low, until = max(begin, low - step), low
                runs, step = joined(self._runs(place, low, until)), step * 4
        return found

    def look(self, partitions: int) -> str:
        """What the transaction topic has, in words. `partitions`: of the other topic. Raises as `until` does."""
        if partitions != 1:
            raise SourceOptionsRefused(_SEVERAL)
        with _named():
            return self._ends.look()

    def close(self) -> None:
        """Ask no more."""
        self._ends.close()

    def _until(self, place: tuple[str, int], begin: int, wanted: int, end: int) -> int:
        if wanted <= begin:
            self._seen = self._waits = None
            self._tell(0.0)
            return begin
        if self._seen is None or self._seen.begin != begin:
            self._seen = _Seen(begin, wanted, wanted)
        seen = self._seen
        step = WINDOW
        self._forwards(place, seen, wanted)
        while (found := self._found(seen)) is None:
            has_room = len(seen.runs) <= RUNS_MAX
            if has_room and seen.low > begin:
                low = max(begin, seen.low - step)
                seen.runs, seen.low = joined([*self._runs(place, low, seen.low), *seen.runs]), low
            elif has_room and seen.high < end:  # one is longer, or the ENDs of these are lost, and not of later ones
                self._forwards(place, seen, min(end, seen.high + max(step, wanted - begin)))
            else:
                self._wait_for(place, seen, end)
                return begin
            step *= 4
        self._waits = None
        self._tell(0.0)
        return found

    def _found(self, seen: _Seen) -> int | None:
        counts = self._ends.counts
        for run in seen.runs[-1 : -1 - TRIED : -1]:
            self._ends.look_for(run)
            if (found := end_of_last(seen.runs, None, seen.high, counts)) is not None:
                return found
        return end_of_last(seen.runs, seen.begin, seen.high, counts) if seen.low == seen.begin else None

    def _forwards(self, place: tuple[str, int], seen: _Seen, high: int) -> None:
        if high > seen.high:
            seen.runs, seen.high = joined([*seen.runs, *self._runs(place, seen.high, high)]), high

    def _runs(self, place: tuple[str, int], start: int, until: int) -> Iterator[Run]:
        for offset, timestamp, value in self._read(TopicRange(*place, start, until)):
            message = None if value is None else self._parse(value)
            if not self._told and is_unmarked(message):
                self._told = True
                log.warning(
                    "changes name no transaction: each counts as one. Set Debezium's provide.transaction.metadata=true",
                    extra={"topic": place[0], "offset": offset},
                )
            if (run := run_of(offset, timestamp, message)) is not None:
                yield run

    def _wait_for(self, place: tuple[str, int], seen: _Seen, end: int) -> None:
        """Raises TransactionIncomplete. The time counts anew while events of one and the same transaction come."""
        now, what = self._clock(), (seen.begin, end if len(seen.runs) == 1 else None)
        if self._waits is None or self._waits[0] != what:
            self._waits = (what, now)
            log.info("a transaction has not ended; it waits", extra={"topic": place[0], "offset": seen.begin})
        waited = now - self._waits[1]
        self._tell(waited)
        if waited <= self._wait:
            return
        last = seen.runs[-1]
        known = self._ends.counts.get(last.id or "")
        said = "no END of it is on the transaction topic" if known is None else f"its END has the counts {known}"
        raise TransactionIncomplete(
            f"topic {place[0]} partition {place[1]}: no transaction from offset {seen.begin} on has ended within "
            f"{self._wait:g} s. The last one is {last.id}, with event {last.order} of the table before offset "
            f"{seen.high}; {said}. {_LOOK_AT}"
        )


def _newest(runs: Sequence[Run]) -> Run | None:
    """The last of a transaction, else the last one."""
    return next((run for run in reversed(runs) if run.id is not None), runs[-1] if runs else None)


@contextmanager
def _named() -> Iterator[None]:
    """Errors say what was wanted of Kafka."""
    try:
        yield
    except TopicsMissing as error:
        raise SourceUnreachable(f"spec.commit.at is transaction, and {_LACKS.format(error.topics[0])}") from error
    except TopicInDoubt as doubt:
        raise SourceUnreachable(f"the driver looks for ends of transactions: {doubt}") from doubt
