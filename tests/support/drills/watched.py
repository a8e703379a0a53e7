"""A pipeline with the operator's real decisions and metrics, in a cluster whose time is told; its scrapes are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol, cast

from bucketingest.spec.job_report import ProgressReport
from bucketingest_operator.decide.plan import WriteStatus as StatusWrite
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observation import PodState
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.passes import Memory
from support.drills.recording import LEADER, STEP_SECONDS, Recording
from support.operator.simulated.fake_cluster import FakeCluster

PASS_SECONDS: Final = 15


class Job(Protocol):
    """What a driver's endpoints answer."""

    def report(self) -> ProgressReport:
        """The answer of `/progress`."""
        ...

    def exposition(self) -> bytes:
        """The answer of `/metrics`."""
        ...


class WatchedPipeline(ABC):
    """A BucketIngest, its operator, and its drivers; `pass_time` records what Prometheus scrapes meanwhile."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.memory = Memory()
        self.recording = Recording()
        self.operator_looks = True
        self.passes_fail = False
        self._metrics = ResourceMetrics(
            cast("Any", _Only(self.cluster)),
            lambda _uid: self.memory,
            lambda _namespace: self.operator_looks,
            clocks=lambda: (self.cluster.now, self._clock()),
        )
        self._began = self.cluster.now

    @abstractmethod
    def _play(self) -> None:
        """What nodes, Jobs and drivers have done since the last pass."""

    @abstractmethod
    def _answers(self) -> Job | None:
        """The newest driver, if it answers."""

    @abstractmethod
    def log_of(self, pod: str) -> str:
        """What a driver pod has logged."""

    def _clock(self) -> float:
        return (self.cluster.now - self._began).total_seconds()

    def pass_time(self, minutes: float, *, every: int = PASS_SECONDS) -> None:
        """Let so much time pass. `every`: seconds between two passes; a long one, of steps, if nothing happens."""
        for second in range(0, int(minutes * 60), every):
            self._play()
            if self.operator_looks:
                self._pass()
            if second % STEP_SECONDS == 0:
                self._scrape(max(1, every // STEP_SECONDS))
            self.cluster.pass_time(every)

    def _pass(self) -> None:
        if self.passes_fail:
            self.memory.counts.errors += 1
            return
        for _ in range(4):
            self._talk()
            before = self.cluster.resource.status
            plan = reconcile(self.cluster.observe())
            self.cluster.apply(plan)
            if any(isinstance(each, StatusWrite) for each in plan.actions):
                self.memory.counts.note_status(before, self.cluster.resource.status)
            if not plan.actions:
                return

    def _talk(self) -> None:
        pod, job = self.cluster.newest(), self._answers()
        if pod is None or pod.state is not PodState.RUNNING or job is None:
            self.memory.talk = self.cluster.progress = None
            return
        report = job.report()
        self.cluster.progress = report
        self.memory.talk = Talk(pod.name, report, self._clock())
        self.memory.counts.note_report(pod.name, report, self.cluster.resource.status, from_its_start=True)

    def _scrape(self, steps: int) -> None:
        job = self._answers()
        of_job = job.exposition() if job is not None else b""
        of_operator = [LEADER, self._metrics.text().decode()] if self.operator_looks else []
        self.recording.scrape(of_job, *of_operator, repeat=steps)


class _Only:
    """An inventory with one resource."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def __iter__(self) -> Any:
        return iter((self._cluster.resource,))


def new_cluster(now: datetime | None = None, **spec: Any) -> FakeCluster:
    """A cluster with a new resource of this spec."""
    cluster = FakeCluster() if now is None else FakeCluster(now=now)
    cluster.resource = replace(cluster.resource, created_at=cluster.now)
    cluster.edit(**spec)
    return cluster
