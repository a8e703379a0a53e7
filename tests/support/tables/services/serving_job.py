"""A job that serves its table, without Spark: a test moves its clock, and its process beside it runs at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bucketingest.hudi.lock.hudi_lock import LockSettings
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clustering.inline import InlineClustering
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.errors import WorkerDied
from bucketingest.services.inline import InlineServices
from bucketingest.services.placement import ServicesPolicy
from bucketingest.services.schedule import LOOK_EVERY, TIDY_EVERY
from bucketingest.services.state import ServicesState
from bucketingest.services.worker import Execute, Request, Tidy
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

ALL = CompactionTriggers(log_files=1)


@dataclass
class Worker:
    """Carries the request out in this process, at once; or dies at an operation."""

    request: Request
    dies_at: int | None = None
    operation: int | None = None
    pid: int = -1
    stopped: bool = False
    _answer: object = None
    _error: Exception | None = None

    def __post_init__(self) -> None:
        try:
            self._answer = self.request.run(self._starts)
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._error = error

    def _starts(self, place: int, _: int) -> None:
        self.operation = place
        gives_up = self.request.gives_up if isinstance(self.request, Execute) else {}
        if place == self.dies_at and place not in gives_up:
            raise WorkerDied("killed")

    def has_ended(self) -> bool:
        return True

    def answer(self) -> object:
        if self._error is not None:
            raise self._error
        return self._answer

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Job:
    """A table with log files, and the services of its job, whose clock a test moves."""

    table: TestTable = field(default_factory=TestTable)
    now: float = 1000.0
    requests: list[Request] = field(default_factory=list)
    dies_at: int | None = None
    tidies: bool = False
    lease_id: str = "another job's"
    reports: list[ServicesState] = field(default_factory=list)
    check_lease: Callable[[], None] = lambda: None
    policy: ServicesPolicy = field(default_factory=ServicesPolicy)
    lets_clean: Callable[[float], bool] = lambda _: True
    meanwhile: Callable[[Request], None] = lambda _: None
    """What happens while a process beside the job works."""

    def __post_init__(self) -> None:
        self.attempt = self.table.attempt()
        self.attempt.run(offsets(0, 2), [row("k0", region="eu"), row("k1", region="us")])
        self.rows = snapshot(self.table.storage)

    def services(
        self,
        triggers: CompactionTriggers | None = ALL,
        storage: Any = None,
        own_storage: Any = None,
        clustering: InlineClustering | None = None,
    ) -> InlineServices:
        """`own_storage`: of the query's thread alone."""
        storage = storage or self.table.storage
        holder = CompactionHolder(own_storage or storage, nullcontext, self.check_lease)
        tidy = Tidy(
            self.table.storage, Retention(retain=timedelta(0)), ArchiveRules(), LockSettings("none"), self.lease_id
        )
        return InlineServices(
            storage,
            holder,
            triggers,
            forward=lambda: self.now,
            start=self._start,
            tidy=tidy if self.tidies else None,
            policy=self.policy,
            clustering=clustering,
            between=lambda: self.attempt.coordinator.inflight is None,
            lets_clean=lambda moment: bool(self.lets_clean(moment)),
            report=self.reports.append,
        )

    def _start(self, request: Request) -> Any:
        self.requests.append(request)
        worker = Worker(request, self.dies_at)
        self.meanwhile(request)
        return worker

    def pass_time(self, services: InlineServices, looks: int = 9) -> None:
        """So many looks, each with the steps that are due."""
        for _ in range(looks):
            self.now += LOOK_EVERY.total_seconds() + 1
            while services.is_due():
                services.step()

    @property
    def compactions(self) -> int:
        return sum(each.action == COMMIT for each in self.table.timeline().completed)


def write_and_compact(job: Job, services: InlineServices) -> None:
    for number in range(3):
        job.attempt.run(offsets(2 + number, 3 + number), [row("k0", region="eu", at=9 + number)])
        job.now += TIDY_EVERY.total_seconds()
        job.pass_time(services, looks=2)
