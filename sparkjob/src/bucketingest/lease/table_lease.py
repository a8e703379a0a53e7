"""Prevents two jobs from writing one table: the job that writes it holds its lease for the whole life of the attempt.

The lease is a series of numbered objects, `.hoodie/.bucketingest/lease/<n>`, each created if absent, which every
storage can do. The newest counts: it is held until it is released, or has not changed for too long. Acquiring, renewing
and releasing are all the same step, creating number n + 1: of several jobs exactly one succeeds, and a holder whose
next number is taken has lost the lease. The age of the newest object never comes from comparing two machines' clocks:
before the first look it is by the storage's clock, then by the waiting job's forward clock. In normal operation the
lease keeps jobs apart; after a pause in the middle of a request, epochs, decisions and names keep commits correct.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Self

from bucketingest.hudi.errors import ClockError
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.lock.renewal_thread import RenewalThread
from bucketingest.lease.objects import Step, age_of, create, is_of, newest_lease, take
from bucketingest.lease.record import (
    DEFAULT_VALIDITY,
    DRIFT,
    LeaseLost,
    LeaseNotRenewed,
    LeaseOwner,
    LeaseRecord,
    TableLeased,
    milliseconds,
    renewal_interval,
    usable,
    why_free,
)
from bucketingest.lease.store_clock import StoreClock
from bucketingest.storage import Storage, StorageError

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
_RELEASE_TRIES: Final = 3
_RENEWALS_MAX: Final = 2
"""In a row."""


@dataclass(frozen=True, slots=True)
class _Times:
    validity: timedelta
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]


class TableLease:
    """A held lease. Made by `acquire`; renewed by its own thread until `release`. Safe to share."""

    def __init__(self, storage: Storage, record: LeaseRecord, step: Step, times: _Times, made: datetime) -> None:
        self._storage = storage
        self._record = record
        self._owner = record.owner
        self._held = step
        self._pending: Step | None = None
        self._times = times
        self._lost: str | None = None
        self._store_clock = StoreClock(storage.url, times.clock, times.monotonic)
        self._store_clock.written(made, step.since)
        self._changing = threading.Lock()
        interval = renewal_interval(times.validity)
        self._renewal_thread = RenewalThread(f"lease-{record.owner.pipeline}", interval, self._renewed)

    @classmethod
    def acquire(
        cls,
        storage: Storage,
        owner: LeaseOwner,
        *,
        wait: timedelta,
        validity: timedelta = DEFAULT_VALIDITY,
        ended_hosts: Collection[str] = (),
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = forward_seconds,
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251 - the real one, unless given
    ) -> Self:
        """Acquire the lease, or wait for it, at most `wait`. A `sleep` that raises ends the wait. `ended_hosts`: hosts,
        such as pods, of which someone who knows says that all their processes have ended: their leases are free.

        Raises TableLeased: it names the holder, since when, until when, and what to do. Raises ClockError as `check`.
        """
        times = _Times(validity, clock, monotonic)
        began = monotonic()
        seen, age, looked = -1, timedelta(), began
        while True:
            number, newest = newest_lease(storage)
            new = number != seen
            if new:
                seen, age, looked = number, age_of(storage, number, newest), monotonic()
            holder = None if newest is None or newest.released else newest.owner.process
            dead = holder is not None and (holder.host in ended_hosts or holder.is_dead())
            unchanged = age + timedelta(seconds=monotonic() - looked)
            reason = why_free(newest, unchanged, owner_dead=dead)
            if reason is not None:
                record, step = _first_step(number + 1, owner, times)
                made = take(storage, step)
                if made is None:
                    continue
                log.info("lease acquired", extra={"lease": number + 1, "taken_because": reason})
                lease = cls(storage, record, step, times, made)
                lease.refuse_wrong_clock()
                return lease
            assert newest is not None, "a table without a lease is free"
            left = wait.total_seconds() - (monotonic() - began)
            if left <= 0:
                raise TableLeased(_held_by(storage, newest, wait))
            if new:
                log.info("waiting for the lease", extra={"held_by": newest.describe(), "seconds_at_most": left})
            sleep(min(_POLL_SECONDS, left))

    def refuse_wrong_clock(self) -> None:
        """Release the lease and raise ClockError if the clocks of this machine and of the storage differ."""
        try:
            self._store_clock.check()
        except ClockError:
            self.release()
            raise

    @property
    def owner(self) -> LeaseOwner:
        """The holder, as other jobs see it."""
        return self._owner

    @property
    def number(self) -> int:
        """Number of our newest lease object."""
        return self._held.number

    @property
    def lease_id(self) -> str:
        """The same in all renewals of this lease, and in no other lease."""
        return self._record.lease_id

    def set_epoch(self, epoch: int) -> None:
        """Have later renewals name the epoch that this attempt has claimed."""
        self._owner = replace(self._owner, epoch=epoch)

    def check(self, margin: timedelta = timedelta(0)) -> None:
        """Raise LeaseLost unless the lease stays valid for at least `margin`, LeaseNotRenewed if that is for storage,
        which does not answer; ClockError if the clocks of this machine
        and of the storage differ: each renewal compares them. No I/O.
        """
        self.refuse_taken()
        left = self._held.usable_until - self._times.monotonic()
        if left < margin.total_seconds() or left <= 0:
            is_silent = self._pending is not None
            why = "storage has not answered the renewal" if is_silent else "the process was paused"
            raise (LeaseNotRenewed if is_silent else LeaseLost)(
                f"{self._storage.url}: the lease of {self.owner} was not renewed in time ({left:.1f} s are left of it, "
                f"{margin.total_seconds():g} s are needed): {why}. This attempt stops and commits nothing; start it "
                "again"
            )
        self._store_clock.check()

    def refuse_taken(self) -> None:
        """Raise LeaseLost if a renewal found that another job has the table. No I/O."""
        if self._lost is not None:
            raise LeaseLost(self._lost)

    def renew(self) -> None:
        """Renew once; the thread does this. Raises LeaseLost if another job took the table, StorageError."""
        with self._changing:
            self.refuse_taken()
            self._pending = self._pending or self._next()
            for _ in range(_RENEWALS_MAX):
                made = take(self._storage, self._pending)
                if made is None:
                    with suppress(StorageError):
                        self._lost = self._taken()
                    self._lost = self._lost or f"{self._storage.url}: another job has taken the table from {self.owner}"
                    raise LeaseLost(self._lost)
                self._store_clock.written(made, self._pending.since)
                self._held = self._pending
                if self._held.usable_until > self._times.monotonic():
                    self._pending = None
                    return
                self._pending = self._next()  # the answer came so late that it renews nothing

    def _next(self) -> Step:
        self._record, step = _next_step(self._held.number + 1, self._record, self._owner, self._times)
        return step

    def release(self) -> None:
        """Free the table for other jobs immediately. Never raises StorageError: the lease expires in any case."""
        ended = self._renewal_thread.stop(renewal_interval(self._times.validity))
        lost, self._lost = self._lost, self._lost or f"{self._storage.url}: {self.owner} has released the table"
        if lost is not None or not ended:
            return
        content = replace(self._record, released=True).encode()
        try:
            for number in range(self._held.number + 1, self._held.number + 1 + _RELEASE_TRIES):
                if create(self._storage, number, content) or not is_of(self._storage, number, self._record.lease_id):
                    return
        except StorageError as error:
            log.warning("the lease was not released and must expire", extra={"reason": str(error)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _renewed(self) -> bool:
        try:
            self.renew()
        except LeaseLost as lost:
            log.error("lease lost", extra={"reason": str(lost)})  # noqa: TRY400 - the reason is enough
            return False
        return True

    def _taken(self) -> str:
        _, newest = newest_lease(self._storage)
        holder = "another job" if newest is None else newest.describe()
        return (
            f"{self._storage.url}: the lease of {self.owner} expired and another job took the table: {holder}. "
            "This attempt stops and commits nothing"
        )


def _first_step(number: int, owner: LeaseOwner, times: _Times) -> tuple[LeaseRecord, Step]:
    since = times.monotonic()
    now, validity = milliseconds(times.clock()), times.validity // timedelta(milliseconds=1)
    record = LeaseRecord(owner, str(uuid.uuid4()), now, now + validity, validity)  # noqa: TID251 - names the owner, decides nothing
    return record, _step(number, record, since, times)


def _next_step(number: int, record: LeaseRecord, owner: LeaseOwner, times: _Times) -> tuple[LeaseRecord, Step]:
    since = times.monotonic()
    record = replace(record, owner=owner, valid_until_ms=milliseconds(times.clock()) + record.validity_ms)
    return record, _step(number, record, since, times)


def _step(number: int, record: LeaseRecord, since: float, times: _Times) -> Step:
    """`since` is before the request is sent: a pause after it must make our time shorter than what other jobs see."""
    return Step(number, record.encode(), since, since + usable(times.validity).total_seconds())


def _held_by(storage: Storage, newest: LeaseRecord, wait: timedelta) -> str:
    waited = f" (waited {wait.total_seconds():g} s for it)" if wait else ""
    if newest.owner.process.is_alive():
        how = "Its process lives, and renews the lease until it ends"
    else:
        until = newest.validity_ms / 1000 + DRIFT.total_seconds()
        how = f"If it lives, it renews the lease until it ends; if it is dead, the table is free within {until:g} s"
    return (
        f"{storage.url}: another job holds this table{waited}: {newest.describe()}. {how}. Stop that job (suspend its "
        "BucketIngest), or give this one another table"
    )
