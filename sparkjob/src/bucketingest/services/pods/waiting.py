"""Rounds whose base files the pods of a Job make, as the holder of the table sees them: it waits for results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bucketingest.services.compaction.records import CompactionJournal, Work
from bucketingest.services.errors import PodsMissing
from bucketingest.services.placement import Choice, Home, ServicesPolicy, choose_home
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

POLL: Final = timedelta(seconds=10)
"""Time between two looks for results: one listing each."""
_HOLDER_EVERY: Final = timedelta(minutes=1)
"""Time between two looks at the compaction: another writer may have ended it. Each renews its heartbeat."""
PATIENCE: Final = timedelta(minutes=15)
"""Without a sign of a pod for so long, there are none."""
_MISSING_REST: Final = timedelta(hours=24)
"""Time for which only mode job wants pods, after none came."""


@dataclass(frozen=True, slots=True)
class PodWork:
    """What a Job is wanted for."""

    compaction: str
    """Its request time."""
    number: int
    round_number: int
    chunks: int
    """Parts of the work: more pods than these have nothing to do."""
    size: int
    """Bytes of the base and log files to merge, in whole MiB for each file group."""


def pod_work(storage: Storage, work: Work) -> PodWork:
    """What the round is for pods. Raises NewerFormat and InvalidTable."""
    record = CompactionJournal(storage).plan(work.number)
    assert record is not None, "a compaction with a round has a plan"
    return PodWork(work.compaction, work.number, work.round_number, len(record.chunks()), record.size)


class Pods:
    """Decides who merges each round; where it is pods, waits for their results and for signs of them."""

    def __init__(self, storage: Storage, policy: ServicesPolicy, forward: Callable[[], float]) -> None:
        """`forward`: seconds by a clock that cannot be set."""
        self._storage = storage
        self._policy = policy
        self._forward = forward
        self._journal = CompactionJournal(storage)
        self._round: Work | None = None
        self._choice = Choice(Home.INLINE, "")
        self._missing_until = forward()
        self._sign: object = None
        self._sign_at = self._looked_at = forward()
        self.work: PodWork | None = None
        """What pods are wanted for now."""

    def place(self, work: Work) -> Choice:
        """Who merges this round. Raises PodsMissing now and then while pods are wanted and none comes."""
        if work != self._round:
            self._choose(work)
        elif self.work is not None and self._forward() - self._sign_at >= PATIENCE.total_seconds():
            self._sign_at = self._forward()
            if self._policy.mode != "job":
                self._missing_until = self._forward() + _MISSING_REST.total_seconds()
                self._choose(work)
            raise PodsMissing(
                f"no pod has worked on compaction {work.compaction} for {PATIENCE}: see the condition ServicesHealthy "
                "of the resource"
            )
        return self._choice

    def end(self) -> None:
        """Nothing is to be merged any more."""
        self._round = self.work = None

    def needs_holder(self) -> bool:
        """Whether the holder looks at the compaction now: nobody is waited for, results are there, or it is time."""
        if self.work is None:
            return True
        done = self._journal.result_chunks(self.work.number, self.work.round_number)
        if len(done) >= self.work.chunks:
            return True
        if self._forward() - self._looked_at < _HOLDER_EVERY.total_seconds():
            return False
        self._looked_at = self._forward()
        claims = self._journal.path(self.work.number, f"round/{self.work.round_number}/claim")
        sign = (len(done), sorted((info.path, info.modified) for info in self._storage.list(claims)))
        if sign != self._sign:
            self._sign, self._sign_at = sign, self._forward()
        return True

    def _choose(self, work: Work) -> None:
        wanted = pod_work(self._storage, work) if self._policy.may_want_pods else None
        missing = self._forward() < self._missing_until
        choice = choose_home(self._policy, 0 if wanted is None else wanted.size, pods_missing=missing)
        self._round, self._choice = work, choice
        self.work = wanted if choice.home is Home.JOB else None
        self._sign, self._sign_at, self._looked_at = None, self._forward(), self._forward()
        extra = {"compaction": work.compaction, "round": work.round_number, "home": choice.home, "why": choice.why}
        log.info("compaction is merged", extra=extra)
