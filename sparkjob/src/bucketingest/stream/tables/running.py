"""A running job of many tables. It looks at all topics, and has each table written that is due, by a thread of its own;
their tasks run together. No table waits for another one: one that hangs or fails is left behind by the rest.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.spec.fields.tables import PLACEHOLDER
from bucketingest.spec.job_report import TableReport, TablesReport
from bucketingest.spec.many_tables import TABLES_MAX
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import JvmFailed, TablesParked
from bucketingest.stream.report.progress import Progress
from bucketingest.stream.report.tables_board import TablesBoard
from bucketingest.stream.running import CATALOG_SECONDS, ONCE_WAITS_SECONDS
from bucketingest.stream.source.sources import read_ranges
from bucketingest.stream.spark.executors import registered_executors
from bucketingest.stream.spark.session import own_session, prepared
from bucketingest.stream.tables.combined import writers
from bucketingest.stream.tables.consistent.keeper import SetKeeper
from bucketingest.stream.tables.gathering import Gathering
from bucketingest.stream.tables.known import KnownTable, closed
from bucketingest.stream.tables.one_table import OneTable
from bucketingest.stream.tables.reporting import report_of, summary
from bucketingest.stream.tables.shared import Shared
from bucketingest.stream.tables.shares import due, went_back
from bucketingest.stream.tables.topics_look import TopicsLook
from bucketingest.stream.tables.trouble import JvmGone
from bucketingest.stream.tables.turns import ServiceTurns

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 1.0
"""Between two looks at the topics, at least; `commit.trigger` may be longer."""
_OPENING: Final = 64
"""Tables that are opened at a time: those that are ready are written while others are opened."""
_HANGS_SECONDS: Final = 10.0
"""One that takes longer to open does not count: others do not wait for it."""
_IDLE_SECONDS: Final = 300.0
"""A table without input for so long is closed."""
_AWAKE_SECONDS: Final = 60.0
"""So long an idle table that was opened for its table services waits for them."""
_AWAKE_MAX: Final = 8
"""Idle tables that are open for that at a time: one has its turn, the next ones wait for theirs."""
_ONCE_TRIES: Final = 3
"""A run that ends with its input gives a table up after so many failures."""


def ingest_tables(
    session: SparkSession,
    resource: BucketIngest,
    *,
    once: bool = False,
    board: TablesBoard | None = None,
    ended_hosts: Collection[str] = (),
) -> RunningTables:
    """Start the tables that the resource describes; arguments as for `ingest_resource`. What is wrong with one table
    parks it. Raises SpecError, and what a look at Kafka raises that no waiting mends.
    """
    with prepared(session):
        session = own_session(session)
    return RunningTables(session, resource, once=once, board=board or TablesBoard(), ended_hosts=ended_hosts)


class RunningTables:
    """As `RunningIngest`, for many tables: `wait` in the main thread, `request_stop` from anywhere."""

    def __init__(
        self,
        session: SparkSession,
        resource: BucketIngest,
        *,
        once: bool,
        board: TablesBoard,
        ended_hosts: Collection[str],
    ) -> None:
        spec = resource.spec
        kafka = spec.source.kafka
        assert kafka is not None, "the rules refuse it"
        trigger = spec.commit.trigger
        self._session, self._board = session, board
        self._path = spec.table.path
        self._once = once or trigger == "once"
        self._trigger = max(_LOOK_SECONDS, trigger.total_seconds()) if isinstance(trigger, timedelta) else _LOOK_SECONDS
        self._interval = spec.commit.interval.total_seconds() if spec.commit.mode == "interval" else 0.0
        self._late_after = spec.health.max_commit_lag.total_seconds()
        self._most = kafka.max_offsets_per_trigger
        self._look = TopicsLook(session, kafka, board, ONCE_WAITS_SECONDS if self._once else math.inf)
        limit = self._late_after / 2
        together, alone = writers(session, limit)
        self._gathering = Gathering(together)
        self._stop = threading.Event()
        rows = read_ranges(session, kafka.model_copy(update={"topics": (PLACEHOLDER,), "topic_pattern": None}))
        self._catalogs = CatalogThreads(len(spec.catalogs))
        self._sets = sets = SetKeeper.of(session, resource, once=self._once)
        self._shared = Shared(
            rows, resource, self._look, self._gathering, alone, limit, ended_hosts, self._stop, self._catalogs, sets
        )
        self._tables: dict[str, KnownTable] = {}
        self._turns = ServiceTurns()
        self._pool = ThreadPoolExecutor(TABLES_MAX, "table")  # none waits for a thread that another table keeps
        self._next_look = forward_seconds()
        self._has_looked = self._answers = False
        self._has_ended = False
        board.report, board.each = self.report, self.reports
        self._gathering.start()
        self._catalogs.start()
        if sets is not None:
            sets.start()

    # -- what the command uses -------------------------------------------------------------------------------------

    def progress(self) -> Progress:
        """What the job is doing now."""
        self._board.executors(registered_executors(self._session))
        return self._board.snapshot()

    def request_stop(self) -> None:
        """End after the micro-batches that are being written."""
        self._board.stopping()
        self._stop.set()
        for known in tuple(self._tables.values()):
            known.table.stop()

    @property
    def service_pid(self) -> int | None:
        """Process id of the table services beside the job, if they run."""
        return next((pid for known in self._tables.values() if (pid := known.table.service_pid) is not None), None)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended; False if it has not after the time-out. Raises JvmFailed, and of a run that
        ends with its input TablesParked, or Kafka's error.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            while deadline is None or time.monotonic() < deadline:
                if self._turn():
                    self._end()
                    return True
                time.sleep(_POLL_SECONDS)
        except BaseException as error:
            self._end()
            if isinstance(error, JvmGone):
                raise JvmFailed(
                    "Spark's JVM is gone, killed or out of memory (spark.driver.memory); the next start finishes or "
                    "rolls back what was started"
                ) from error
            raise
        return False

    def report(self) -> TablesReport:
        """How the tables are; the first ten of them in the order of need."""
        return summary(self.reports(), self._late_after, self._look.left_out)

    def reports(self) -> list[TableReport]:
        """How each table is."""
        return [report_of(known.table, self._path) for _, known in sorted(self._tables.items())]

    # -- one turn --------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Do what is due, and return whether all has ended. Nothing here waits for a table."""
        for known in self._tables.values():
            if known.busy is not None and known.busy.done():
                done, known.busy = known.busy, None
                done.result()
                self._turns.stepped(known.table)
        if self._stop.is_set():
            return not any(known.is_busy for known in self._tables.values())
        if forward_seconds() >= self._next_look:
            self._look_now()
            if self._answers:
                self._plan()
            self._close_idle()
        self._open()
        self._serve()
        return self._once and self._has_all()

    def _look_now(self) -> None:
        found = self._look.look()
        self._next_look = forward_seconds() + self._trigger
        self._answers = found is not None
        if found is None:
            return
        self._has_looked = True
        self._board.looked()
        if self._sets is not None:
            found = self._sets.seen(found)
        for topic, now in found.items():
            known = self._tables.get(topic)
            if known is None:
                log.info("a table for a topic", extra={"topic": topic})
                table = OneTable(topic, self._shared, self._board.table(topic), self._turns.takes)
                self._tables[topic] = known = KnownTable(table, now)
            known.now, known.table.is_gone = now, False
            if now.silent:
                self._set_aside(known)
                continue
            known.table.board.source_ends({(topic, part): end for part, end in now.ends.items()})
        for topic in self._tables.keys() - found.keys():
            self._is_gone(topic, self._tables[topic])

    def _set_aside(self, known: KnownTable) -> None:
        """Its topic cannot be read: each look after the pause counts as a try."""
        trouble = known.table.trouble
        if not known.is_busy and (trouble is None or forward_seconds() >= trouble.again_at):
            known.busy = self._pool.submit(known.table.set_aside, known.now.silent)

    def _is_gone(self, topic: str, known: KnownTable) -> None:
        if not known.table.is_gone:
            log.warning("Kafka has a topic no more; its table stays as it is", extra={"topic": topic})
        known.table.is_gone = True
        if known.is_busy or self._turns.is_of(topic):
            return
        if known.table.is_known:
            known.busy = self._pool.submit(known.table.leave)
        elif len(self._tables) > TABLES_MAX:  # topics may come and go for ever
            del self._tables[topic]
            self._board.forget(topic)
            self._catalogs.forget(topic)
            self._turns.forget(topic)

    def _open(self) -> None:
        """Have tables opened whose position is not known, those with the most messages first."""
        now = forward_seconds()
        closed = [known for known in self._tables.values() if not known.table.is_known]
        free = [known for known in closed if not known.is_busy and self._may_go(known, now)]
        share = self._most // max(1, len(self._tables))
        room = _OPENING - sum(known.is_busy and now - known.began < _HANGS_SECONDS for known in closed)
        for known in sorted(free, key=KnownTable.messages, reverse=True)[: max(0, room)]:
            self._start(known, share)

    def _plan(self) -> None:
        """Have those tables written that are due, and with them those that soon would be: they share the job."""
        now = forward_seconds()
        free = [known for known in self._tables.values() if not known.is_busy and self._may_go(known, now)]
        for known in free:
            if known.table.has_replay:
                self._start(known, 1)
        wanting = {known.table.topic: known for known in free if known.table.is_known and not known.is_busy}
        amounts = {topic: known.waiting() or self._went_back(known) for topic, known in wanting.items()}
        amounts = {topic: 0 if wanting[topic].is_done else amount for topic, amount in amounts.items()}
        ages = {topic: self._age(wanting[topic].table, now) for topic in amounts}
        interval = self._interval if self._sets is None else 0.0  # all have the same
        for topic, share in due(amounts, ages, interval=interval, most=self._most).items():
            self._start(wanting[topic], share)

    def _went_back(self, known: KnownTable) -> int:
        """1 if the table has to be looked into though nothing waits, else 0."""
        found = went_back(known.table.position, known.table.topic, known.now)
        if found:
            known.input_at = forward_seconds()
        return int(found)

    def _close_idle(self) -> None:
        """Close tables that have no input, and open one of them whose table services are due."""
        now = forward_seconds()
        free = [known for known in self._tables.values() if not known.is_busy]
        for known in free:
            had_turn = known.is_awake and not self._turns.is_due_again(known.table)
            is_idle = had_turn or (now - known.input_at >= _IDLE_SECONDS and self._turns.is_served(known.table))
            if is_idle and known.table.is_open and not self._turns.is_of(known.table.topic):
                known.busy = self._pool.submit(known.table.rest)
        idle = (known for known in free if known.table.is_idle and not known.table.is_gone)
        awake = sum(known.is_awake and (known.is_busy or known.table.is_open) for known in self._tables.values())
        due_again = next((known for known in idle if self._turns.is_due_again(known.table)), None)
        if due_again is not None and awake < _AWAKE_MAX:
            due_again.input_at, due_again.is_awake = now - _IDLE_SECONDS + _AWAKE_SECONDS, True
            due_again.busy = self._pool.submit(due_again.table.wake)

    def _may_go(self, known: KnownTable, now: float) -> bool:
        trouble = known.table.trouble
        return (
            not known.table.is_gone
            and not known.now.silent
            and (trouble is None or (self._answers and now >= trouble.again_at))
        )

    def _age(self, table: OneTable, now: float) -> float:
        return float("inf") if self._once or table.began_at is None else now - table.began_at

    def _start(self, known: KnownTable, share: int) -> None:
        self._gathering.announce(known.table.topic)
        known.began = forward_seconds()
        known.busy = self._pool.submit(known.table.step, known.now, max(1, share))

    def _serve(self) -> None:
        chosen = self._turns.next([known.table for known in self._tables.values() if known.table.is_open])
        if chosen is not None and not self._tables[chosen.topic].is_busy:
            self._tables[chosen.topic].busy = self._pool.submit(chosen.serve)
        for topic, known in self._tables.items():
            if not known.table.is_open and not known.is_busy:
                self._turns.closed(topic)

    def _has_all(self) -> bool:
        """Whether all input of a run that ends with it is in the tables. Raises TablesParked."""
        if not self._has_looked or any(known.is_busy for known in self._tables.values()):
            return False
        if self._sets is not None and not (self._sets.has_all or self._sets.problem):
            return False
        parked = [known.table for known in self._tables.values() if known.table.trouble is not None]
        left = (known for known in self._tables.values() if not known.is_done)
        if any(known.table.is_known and not known.table.is_gone and known.waiting() for known in left):
            return False
        troubles = [table.trouble for table in parked if table.trouble is not None]
        if any(table.trouble.failures < _ONCE_TRIES and not table.is_gone for table in parked if table.trouble):
            return False  # one whose topic is gone is not tried again
        if troubles:
            said = "; ".join(f"{table.topic}: {each.reason}" for table, each in zip(parked, troubles, strict=True))
            count = f"{len(parked)} of {len(self._tables)} tables are parked"
            raise TablesParked(f"{count}: {said[:2000]}") from troubles[0].error
        return all(known.table.is_known or known.table.is_gone for known in self._tables.values())

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._stop.set()
        self._gathering.stop()
        for known in self._tables.values():
            known.table.stop()
        closing = [self._pool.submit(partial(closed, known)) for known in self._tables.values()]
        for future in closing:
            try:
                future.result()
            except Exception as error:  # noqa: BLE001 - it is of no matter to the other tables
                log.warning("a table could not be closed", extra={"reason": str(error)})
        self._catalogs.stop(CATALOG_SECONDS if self._once else 0.0)
        self._shared.services.stop()
        if self._sets is not None:
            self._sets.stop()
        self._pool.shutdown(wait=False)
        self._look.close()
        self._board.refresh()
