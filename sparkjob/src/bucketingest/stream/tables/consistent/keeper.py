"""Has all tables of a job stop at the same places of the database's transactions, and says which commits belong
together. It has a thread of its own: neither it nor a table waits for the other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Self

from pyspark.sql import SparkSession

from bucketingest.decode.kafka.reading_choice import reading_of
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.fields.source_secret import ISOLATION, source_options
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import Storage, StorageUnavailable, open_storage
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.tables.consistent.cuts import At, Cuts
from bucketingest.stream.tables.consistent.ends import EndsInOrder
from bucketingest.stream.tables.consistent.set_file import Said, SetFile, folder_of
from bucketingest.stream.tables.shares import TopicOffsets
from bucketingest.stream.topics.batch import starts
from bucketingest.stream.topics.brokers import Brokers
from bucketingest.stream.topics.continuity import offsets_of, text_of
from bucketingest.stream.topics.ends import Read, messages_of, parser_of
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.write.coordinator_api import Commit
from bucketingest.write.instants.source_range import SourceRange

log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 60.0
"""So long the tables wait for an answer; then they are parked, and say why."""
_STOP_SECONDS: Final = 10.0


class SetKeeper:
    """`turn` is called by one thread, the rest by any."""

    def __init__(
        self,
        topic: str,
        ends: EndsInOrder,
        file: SetFile,
        *,
        interval: float,
        read: Read,
        clock: Callable[[], float] = forward_seconds,
    ) -> None:
        """`topic`: the transaction topic. `interval`: seconds between two places at which tables stop. `read`: reads
        the tables' topics.
        """
        self.topic, self.ends, self.read = topic, ends, read
        self.cuts = Cuts()
        self.topics: Collection[str] = frozenset()
        """Those that there are."""
        self.problem = ""
        """Why tables cannot go on; "" if they can, or soon may."""
        self._file, self._interval, self._clock = file, interval, clock
        self._has_begun = False
        self._moved_at = float("-inf")
        self._failing_since: float | None = None
        self._looked = self._asked = 0
        """The turns before the last look at the tables' topics, and before the next one."""
        self._said: Said | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tables-sets", daemon=True)

    @classmethod
    def of(cls, session: SparkSession, resource: BucketIngest, *, once: bool) -> Self | None:
        """Of a resource; None if its commits may be anywhere. Raises SourceOptionsRefused, SpecError."""
        spec = resource.spec
        kafka, name = spec.source.kafka, spec.commit.transaction_topic
        if spec.commit.at != "transaction" or kafka is None or name is None:
            return None
        reading = reading_of(resource, dict(session.sparkContext.getConf().getAll()))
        if reading is None or reading.client is None:
            why = "" if reading is None else reading.why
            raise SourceOptionsRefused(f"spec.commit.at is transaction, and the driver cannot read Kafka itself: {why}")
        stable = {key.lower(): str(value) for key, value in source_options(kafka).items()}[ISOLATION].lower()
        brokers = Brokers(session, kafka.model_copy(update={"topics": (name,), "topic_pattern": None}), _ANSWER_SECONDS)
        reads = partial(messages_of, reading.client)
        ends = EndsInOrder(brokers, reads, parser_of(resource), stable=stable == "read_committed")
        path = spec.table.path
        file = SetFile(open_storage(folder_of(path, resource.pipeline)), path)
        interval = spec.commit.interval.total_seconds() if spec.commit.mode == "interval" else 0.0
        return cls(name, ends, file, interval=float("inf") if once else interval, read=reads)

    def start(self) -> None:
        """Work from now on."""
        self._thread.start()

    def stop(self) -> None:
        """After the tables' last commits: say what there is, and end."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)
        self.ends.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn()
            self._stop.wait(_TURN_SECONDS)
        self._say()

    def turn(self) -> None:
        """Let the tables go on to a newer place if it is time, and say what is known now."""
        try:
            if not self._has_begun:
                before = self._file.newest()
                if before is not None:
                    self.ends.begin(before.place)
                    self.cuts.newest = before.newest
                self._has_begun = True
            waited = self._clock() - self._moved_at
            if self._failing_since is not None or waited >= self._interval or self.ends.is_behind:
                self.ends.read_on()
                self.cuts.move(self.ends.place)
                self._moved_at, self._failing_since, self.problem = self._clock(), None, ""
        except Exception as error:  # noqa: BLE001 - the thread must go on; the tables say what it was
            if self._failing_since is None:
                log.warning("it is not known where transactions end", extra={"reason": str(error)})
                self._failing_since = self._clock()
            silent = self._clock() - self._failing_since
            if silent >= PATIENCE_SECONDS or not isinstance(error, SourceUnreachable | StorageUnavailable):
                self.problem = f"spec.commit.at is transaction: {error}"
        else:
            self._say()

    def seen(self, found: Mapping[str, TopicOffsets]) -> dict[str, TopicOffsets]:
        """What there is for tables. `found`: topics of the resource, now."""
        tables = {topic: now for topic, now in found.items() if topic != self.topic}
        self.topics = frozenset(tables)
        self.cuts.looked(self._asked, {topic: now.ends[0] for topic, now in tables.items() if 0 in now.ends})
        self._looked, self._asked = self._asked, self.cuts.turn
        if not self.problem:
            return tables
        return {topic: replace(now, silent=now.silent or self.problem) for topic, now in tables.items()}

    @property
    def has_all(self) -> bool:
        """Whether the tables may go up to the last transaction that has ended; their topics were looked at since."""
        return self._looked == self.cuts.turn > 0 and not self.ends.is_behind and self._failing_since is None

    def _say(self) -> None:
        """Raises nothing: what was not said is said with the next turn."""
        self.cuts.choose(self.topics)
        before, said = self._said, Said(self.ends.place, self.cuts.newest)
        if before is not None and (before.place.offset, before.newest) == (said.place.offset, said.newest):
            return
        try:
            if self._file.say(said):
                self._said = said
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("the tables' consistent set cannot be written", extra={"reason": str(error)})


def newest_instant(storage: Storage) -> str | None:
    """Request time of a table's newest complete instant that wrote data: as of it, all of them are in the table."""
    return max((instant.request_time for instant in Timeline.load(storage).completed_commits), default=None)


class TableCuts:
    """What one table has to do with it. Used by one thread at a time."""

    def __init__(self, keeper: SetKeeper, topic: str, whole: WholeTransactions, board: ProgressBoard) -> None:
        """`whole`: with the keeper's ENDs."""
        self._keeper, self._topic, self._whole, self._board = keeper, topic, whole, board
        self._done = 0
        self._instant: str | None = None
        """The newest one when it was opened."""
        self._before: Commit | None = None
        """By this job before that."""

    @classmethod
    def of(cls, keeper: SetKeeper, topic: str, resource: BucketIngest, board: ProgressBoard) -> Self:
        """`resource`: of the table alone."""
        wait, tell = resource.spec.commit.transaction_wait.total_seconds(), board.transaction_waits
        whole = WholeTransactions(keeper.ends, keeper.read, parser_of(resource), wait_seconds=wait, tell=tell)
        return cls(keeper, topic, whole, board)

    @property
    def is_done(self) -> bool:
        """Whether it has to wait for a newer place, whatever its topic has."""
        return self._done >= self._keeper.cuts.turn

    def whole(self, position: SourceRange | None, wanted: SourceRange, now: TopicOffsets) -> SourceRange:
        """The micro-batch with whole transactions, none of them behind the place. Raises as `WholeTransactions`."""
        turn, ends = self._keeper.cuts.turn, {(self._topic, part): at for part, at in now.ends.items()}
        begins = starts(position, {(self._topic, part): at for part, at in now.begins.items()})
        upto = offsets_of(wanted)
        until = self._whole.until(begins, upto, ends)
        if all(at < upto[place] or at >= ends[place] for place, at in until.items()):
            self._done = turn
        return replace(wanted, end=text_of(upto | until))

    def opened(self, newest: str | None) -> None:
        """The table was opened. `newest`: of its complete instants."""
        self._instant, self._before = newest, self._board.snapshot().last
        self._done = 0
        self.lost()

    def reached(self, position: SourceRange | None, now: TopicOffsets) -> None:
        """The table has all up to this position, and its instants are complete."""
        last = self._board.snapshot().last
        instant = self._instant if last is None or last is self._before else last.instant_time
        begin = now.begins.get(0, 0)
        offset = offsets_of(position).get((self._topic, 0), begin)
        self._keeper.cuts.at(self._topic, At(offset, self._whole.last((self._topic, 0), begin, offset), instant))

    def lost(self) -> None:
        """It is parked, or opened anew: what it has is looked up."""
        self._keeper.cuts.forget(self._topic)
