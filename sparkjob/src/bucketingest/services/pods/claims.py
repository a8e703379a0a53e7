"""Which executor works on which chunk of a round, so that several share the work: hints, on which no row depends.

    round/<r>/claim/<chunk>/<k>     the k-th executor of the chunk, and the operation that it merges now

A claim is created if absent, then renewed in place while its executor lives. Who ignores claims merges what another one
merges too; both make the same file. An executor that is stopped gives its claim back: another one goes on at once. No
claim is deleted: those of a chunk count how often an executor started an operation that did not end it, whether it
was killed or stopped, as a pod is that takes too much of its node.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.storage import NotFound, Storage, StorageError, created

log = logging.getLogger(__name__)

RENEW_EVERY: Final = timedelta(seconds=15)
DEAD_AFTER: Final = timedelta(seconds=60)
"""A claim that nobody renews for so long, by the clock of who watches it, has no executor any more."""
ATTEMPTS_MAX: Final = 3
"""How many executors may begin an operation and not end it before it is given up."""
_NOBODY: Final = ""
"""Executor of a claim that was given back."""


@dataclass(frozen=True, slots=True)
class _Claim:
    chunk: int
    number: int
    path: str


@dataclass(slots=True)
class Held:
    """A chunk that this executor has claimed."""

    chunk: int
    gives_up: dict[int, str] = field(default_factory=dict)
    """Operations that executors began too often, by place, and the sentence that says so."""
    operation: int | None = None
    """Place of the operation that is merged now."""
    note: Callable[[], None] = lambda: None
    """Writes the operation into the claim."""

    def starts(self, place: int, _of: int) -> None:
        """An operation of the chunk begins."""
        self.operation = place
        self.note()


class Claims:
    """The claims of one round. Not from two threads at once."""

    def __init__(
        self,
        storage: Storage,
        number: int,
        round_number: int,
        executor: str,
        *,
        forward: Callable[[], float] = forward_seconds,
    ) -> None:
        """`executor`: the same for a process and the one that replaces it. `forward`: seconds by a clock that cannot be
        set.
        """
        self._storage = storage
        self._root = CompactionJournal(storage).path(number, f"round/{round_number}/claim")
        self._executor = executor
        self._forward = forward
        self._watched: dict[str, tuple[datetime, str | None, float]] = {}
        self._executors: dict[str, str | None] = {}

    @contextmanager
    def holding_one(self, chunks: Sequence[int]) -> Iterator[Held | None]:
        """Claim a chunk that nobody works on, the first in this order, and renew the claim; None if there is none.

        An executor that was stopped is replaced at once, one that was killed by its successor at once, by others after
        `DEAD_AFTER`.
        """
        claim = self._take(chunks)
        if claim is None:
            yield None
            return
        held = Held(claim.chunk, self._given_up(claim))
        held.note = lambda: self._put(claim, self._executor, held.operation)
        try:
            with _renewing(held):
                yield held
        except BaseException:
            self._put(claim, _NOBODY, held.operation)
            raise

    def _take(self, chunks: Sequence[int]) -> _Claim | None:
        newest = self._look()
        free = [chunk for chunk in chunks if chunk not in newest]
        free += [chunk for chunk in chunks if chunk in newest and self._is_dead(newest[chunk])]
        for chunk in free:
            number = newest[chunk].number + 1 if chunk in newest else 1
            claim = _Claim(chunk, number, f"{self._root}/{chunk}/{number}")
            if created(self._storage, claim.path, _content(self._executor, None)):
                return claim
        return None

    def _look(self) -> dict[int, _Claim]:
        """The newest claim of each chunk; notes which claims have changed since the last look."""
        newest: dict[int, _Claim] = {}
        now = self._forward()
        for info in self._storage.list(self._root):
            chunk, _, number = info.path[len(self._root) + 1 :].partition("/")
            if not (chunk.isdecimal() and number.isdecimal()):
                continue  # not ours
            claim = _Claim(int(chunk), int(number), info.path)
            known = self._watched.get(info.path)
            if known is None or known[:2] != (info.modified, info.etag):
                self._watched[info.path] = (info.modified, info.etag, now)
                self._executors.pop(info.path, None)
            if claim.chunk not in newest or newest[claim.chunk].number < claim.number:
                newest[claim.chunk] = claim
        return newest

    def _is_dead(self, claim: _Claim) -> bool:
        if self._forward() - self._watched[claim.path][2] >= DEAD_AFTER.total_seconds():
            return True
        if claim.path not in self._executors:
            self._executors[claim.path] = self._read(claim.path)[0]
        # This process holds no claim now: one of its name is that of the process before it.
        return self._executors[claim.path] in (_NOBODY, self._executor)

    def _given_up(self, claim: _Claim) -> dict[int, str]:
        before = (f"{self._root}/{claim.chunk}/{number}" for number in range(1, claim.number))
        begun = Counter(operation for _, operation in map(self._read, before) if operation is not None)
        why = f"its merge was started {ATTEMPTS_MAX} times and did not end (out of memory? pod evicted?)"
        return {operation: why for operation, attempts in begun.items() if attempts >= ATTEMPTS_MAX}

    def _read(self, path: str) -> tuple[str | None, int | None]:
        """Executor and operation of a claim; None for what cannot be read."""
        try:
            record = json.loads(self._storage.get(path))
            operation = record["operation"]
            return str(record["executor"]), operation if isinstance(operation, int) else None
        except (NotFound, ValueError, KeyError, TypeError):
            return None, None

    def _put(self, claim: _Claim, executor: str, operation: int | None) -> None:
        try:
            self._storage.put(claim.path, _content(executor, operation))
        except StorageError as error:  # at worst another executor merges the same, or waits
            log.warning("claim not written", extra={"chunk": claim.chunk, "reason": str(error)})


def _content(executor: str, operation: int | None) -> bytes:
    return json.dumps({"executor": executor, "operation": operation}).encode()


@contextmanager
def _renewing(held: Held) -> Iterator[None]:
    """Renew the claim until the context ends."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_EVERY.total_seconds()):
            held.note()

    thread = threading.Thread(target=renew, name="claim", daemon=True)  # noqa: TID251 - renews while the work runs
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
