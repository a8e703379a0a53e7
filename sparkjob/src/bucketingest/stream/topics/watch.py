"""Looks at the brokers of a source all the time, beside the query: Spark notices after minutes that a broker is gone,
and never that a transaction is open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Final

from py4j.protocol import Py4JError

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.spec.job_report import SourceReport
from bucketingest.stream.topics.brokers import Brokers, Topic
from bucketingest.write.instants.source_range import Offsets

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Between two looks, and longest of one: a broker that is gone is known within 15 s."""
PARTITIONS_MAX: Final = 256
"""Of more partitions the open transactions are not looked for: each costs two answers."""


class OpenTransactions:
    """For how long a transaction has kept back what follows it. Its start is not known, only when it was first seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}
        """Where reading stops, and since when it was seen there."""

    def look(self, now: float, stable: Offsets, ends: Offsets) -> tuple[float, str | None]:
        """Age of the oldest that is open, and where it is; 0 and None without one."""
        known, self._seen = self._seen, {}
        for place, at in stable.items():
            if at < ends.get(place, at):
                before = known.get(place)
                self._seen[place] = before if before is not None and before[0] == at else (at, now)
        if not self._seen:
            return 0.0, None
        (topic, partition), (at, since) = min(self._seen.items(), key=lambda item: item[1][1])
        return now - since, f"{topic} partition {partition} at offset {at}"


class GroupPosition:
    """The offsets of a consumer group, which follow the table's commits. The table does not depend on them."""

    def __init__(self, group: str, position: Callable[[], Offsets]) -> None:
        """`position`: the next offset to commit of each partition."""
        self._group = group
        self._position = position
        self._noted: Offsets = {}
        self._problem = ""

    def follow(self, brokers: Brokers) -> None:
        """Tell Kafka, if commits have come. What it refuses is logged once, and tried again."""
        position = self._position()
        if not position or position == self._noted:
            return
        try:
            brokers.note_position(self._group, position)
        except BucketIngestError as error:
            if str(error) != self._problem:
                reason = f"{error}. The group needs the right READ, and no consumer of its own"
                log.warning("the consumer group does not follow", extra={"group": self._group, "reason": reason})
            self._problem = str(error)
        else:
            self._noted, self._problem = position, ""


def unanswered(servers: str, problem: str, seconds: float, answered_at: datetime | None = None) -> SourceReport:
    """What is said of brokers that have not answered for so long."""
    return SourceReport(
        bootstrap_servers=servers,
        answers=False,
        problem=problem,
        answered_at=answered_at,
        unanswered_seconds=seconds,
        open_transaction_seconds=None,
    )


class TopicsWatch:
    """A thread that looks, and tells `report` what it found. One per process."""

    def __init__(
        self,
        brokers: Brokers,
        report: Callable[[SourceReport], None],
        *,
        committed_only: bool,
        group: GroupPosition | None = None,
        clock: Callable[[], datetime] = utc_now,
        forward: Callable[[], float] = forward_seconds,
    ) -> None:
        self._brokers = brokers
        self._report = report
        self._committed_only = committed_only
        self._group = group
        self._clock = clock
        self._forward = forward
        self._stopped = threading.Event()
        self._state = SourceReport(bootstrap_servers=brokers.servers)
        self._silent_since: float | None = None
        self._answering_since: float | None = None
        self._transactions = OpenTransactions()
        self._answered = 0.0
        self._thread = threading.Thread(target=self._run, name="topics-watch", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; one that is under way ends by itself. A group gets the last position before that."""
        self._stopped.set()
        if self._group is not None:
            self._thread.join(LOOK_SECONDS)

    def has_answered_since(self, moment: float) -> bool:
        """Whether a look that began after the moment, by the forward clock, was answered, and none after it was not."""
        return self._state.answers and self._answered > moment

    def look(self) -> None:
        """Once."""
        began = self._forward()
        try:
            topics = self._brokers.topics()
            age, where = self._open_transaction(topics)
        except BucketIngestError as error:
            self._note_silence(str(error), began)
            return
        if self._silent_since is not None:
            log.info("Kafka answers again", extra={"after_seconds": round(self._forward() - self._silent_since, 1)})
        self._silent_since = None
        self._answering_since = began if self._answering_since is None else self._answering_since
        answering = began - self._answering_since
        self._state = SourceReport(
            bootstrap_servers=self._brokers.servers,
            answered_at=self._clock(),
            answering_seconds=answering,
            open_transaction_seconds=age,
            open_transaction=where,
        )
        self._answered = began
        self._report(self._state)
        if self._group is not None:
            self._group.follow(self._brokers)

    def _note_silence(self, problem: str, began: float) -> None:
        if self._silent_since is None:
            self._silent_since, self._answering_since = began, None
            log.warning("Kafka does not answer", extra={"reason": problem})
        silent = self._forward() - self._silent_since
        self._state = unanswered(self._brokers.servers, problem, silent, self._state.answered_at)
        self._report(self._state)

    def _open_transaction(self, topics: dict[str, Topic]) -> tuple[float | None, str | None]:
        if not self._committed_only:
            return 0.0, None
        if sum(len(topic.partitions) for topic in topics.values()) > PARTITIONS_MAX:
            return None, None
        stable = self._brokers.ends(topics, stable=True)  # first: it only grows
        return self._transactions.look(self._forward(), stable, self._brokers.ends(topics, stable=False))

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.look()
                self._stopped.wait(LOOK_SECONDS)
            if self._group is not None:
                self._group.follow(self._brokers)
        except (Py4JError, OSError) as error:  # the JVM is gone: the query's own thread says so
            log.debug("no further look at Kafka", extra={"reason": str(error)})
        finally:
            quietly(self._brokers.close)


def quietly(close: Callable[[], None]) -> None:
    """Close a client, should there still be a JVM."""
    try:
        close()
    except (Py4JError, OSError) as error:
        log.debug("Kafka's client could not be closed", extra={"reason": str(error)})
