"""A pipeline whose drivers are real processes: what the operator's decisions start, runs, and is really scraped.

Time is stretched. A moment of a process may last minutes in the cluster: it is scraped again and again meanwhile, and
what it says of ages is told as if those minutes had passed. Its own metrics stay as they are.
"""

from __future__ import annotations

import http.client
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from typing_extensions import override

from bucketingest.spec.job_report import ProgressReport, TerminationReport
from bucketingest_operator.observation import PodState
from devservers.process import free_ports
from support.drills.watched import Job, WatchedPipeline, new_cluster
from support.jobs.command_process import CommandProcess

_AGES: Final = frozenset(
    {"ageSeconds", "answeringSeconds", "unansweredSeconds", "runningSeconds", "lastReportAgeSeconds", "seconds"}
)
_STARTS_WITHIN: Final = 20
"""Half minutes."""
_POLL_SECONDS: Final = 0.05
_TIMES: Final = frozenset({"at", "answeredAt", "lastReportAt"})


class Stretch:
    """Which time of the cluster a real time is."""

    def __init__(self, now: datetime) -> None:
        self._pairs = [(now, now)]

    def note(self, real: datetime, told: datetime) -> None:
        """Now it is `told` in the cluster."""
        self._pairs.append((real, told))

    def told(self, real: datetime) -> datetime:
        """The cluster's time of a real one."""
        at, then = max((pair for pair in self._pairs if pair[0] <= real), default=self._pairs[0])
        return then + (real - at)

    def of(self, document: Any, real: datetime, told: datetime) -> Any:
        """A report's document with its times and ages as the cluster tells them. `real`, `told`: now."""
        if isinstance(document, list):
            return [self.of(each, real, told) for each in document]
        if not isinstance(document, dict):
            return document
        found: dict[str, Any] = {}
        for name, value in document.items():
            if name in _TIMES and isinstance(value, str):
                found[name] = self.told(datetime.fromisoformat(value)).isoformat()
            elif name in _AGES and value:
                found[name] = max(0.0, (told - self.told(real - timedelta(seconds=value))).total_seconds())
            else:
                found[name] = self.of(value, real, told)
        return found


class RealJob:
    """The endpoints of one `bucketingest run`."""

    def __init__(self, process: CommandProcess, address: str, ended: Path, pipeline: RealPipeline) -> None:
        self.process = process
        self.ended = ended
        self._address = address
        self._pipeline = pipeline

    def get(self, path: str) -> bytes:
        """The body of an endpoint's answer."""
        with urllib.request.urlopen(f"http://{self._address}{path}", timeout=10) as answer:
            return bytes(answer.read())

    def progress(self) -> ProgressReport:
        """The answer of `/progress` as it is."""
        return ProgressReport.model_validate_json(self.get("/progress"))

    def report(self) -> ProgressReport:
        """The answer of `/progress` as the cluster's time tells it."""
        real = datetime.now(UTC)
        document = json.loads(self.get("/progress"))
        return ProgressReport.model_validate(self._pipeline.stretch.of(document, real, self._pipeline.cluster.now))

    def exposition(self) -> bytes:
        """The answer of `/metrics`."""
        return self.get("/metrics")

    def answers(self) -> bool:
        """Whether the endpoints are there, and the query has begun."""
        try:
            return self.progress().phase != "starting"
        except (OSError, http.client.HTTPException):
            return False


class RealPipeline(WatchedPipeline):
    """Its drivers are processes of this machine. `end` ends the newest."""

    def __init__(self, folder: Path, name: str = "orders", **spec: Any) -> None:
        super().__init__(new_cluster(datetime.now(UTC), **spec))
        self.folder = folder
        self._name = name
        self.stretch = Stretch(self.cluster.now)
        self.job: RealJob | None = None
        self._logs: dict[str, Path] = {}

    @property
    def now(self) -> ProgressReport:
        """What the driver says, unstretched."""
        assert self.job is not None
        return self.job.progress()

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until it is so; no time passes in the cluster."""
        assert self.job is not None
        self.job.process.wait_until(reached)

    def attempts(self) -> RealJob:
        """Another driver is created."""
        before = self.job
        for _ in range(_STARTS_WITHIN):
            self.pass_time(0.5)
            if self.job is not None and self.job is not before:
                return self.job
        raise AssertionError(self.cluster.resource.status)

    def starts(self) -> None:
        """Another driver is created, and answers."""
        self.until(self.attempts().answers)

    def recovers(self) -> None:
        """The newest driver answers, or the one after it, as long as another is tried."""
        for _ in range(_STARTS_WITHIN):
            if self.job is not None and self.job.process.ended() is None:
                job = self.job
                while job.process.ended() is None:
                    if job.answers():
                        return
                    time.sleep(_POLL_SECONDS)
            self.pass_time(0.5)
        raise AssertionError(self.cluster.resource.status)

    def fails(self) -> TerminationReport:
        """The driver ends by itself, and says why."""
        assert self.job is not None
        job = self.job
        job.process.wait()
        return TerminationReport.model_validate_json(job.ended.read_bytes())

    def kill(self) -> None:
        """The driver's process and all that it started are gone at once."""
        assert self.job is not None
        self.job.process.__exit__()

    def end(self) -> None:
        """Nothing of the driver is left."""
        if self.job is not None:
            self.job.process.__exit__()
            self.job = None

    @override
    def log_of(self, pod: str) -> str:
        file = self._logs.get(pod)
        return "" if file is None else file.read_text(errors="replace")

    @override
    def _answers(self) -> Job | None:
        return self.job if self.job is not None and self.job.answers() else None

    @override
    def _play(self) -> None:
        cluster = self.cluster
        real = datetime.now(UTC)
        cluster.now = max(cluster.now, self.stretch.told(real))
        self.stretch.note(real, cluster.now)
        if any(pod.terminating for pod in cluster.pods.values()):
            if self.job is not None and self.job.process.alive():
                self.job.process.signal(signal.SIGTERM)
                self.job.process.wait()
            self.end()
            cluster.finish_deletions()
        cluster.finish_jobs()
        cluster.end_preflights(passes=lambda _: True)
        pod = cluster.newest()
        if pod is None:
            return
        if pod.state is PodState.PENDING:
            self._start(pod.attempt, pod.name)
            cluster.set_pod(state=PodState.RUNNING)
        elif self.job is not None and (code := self.job.process.ended()) is not None:
            said = self.job.ended.read_bytes() if self.job.ended.exists() else b""
            report = TerminationReport.model_validate_json(said) if said else None
            code = 128 - code if code < 0 else code
            cluster.set_pod(state=PodState.FAILED, exit_code=code, report=report, finished_at=cluster.now)
            self.end()

    def _start(self, attempt: int, pod: str) -> None:
        self.end()
        names = {"name": self._name, "namespace": self.cluster.resource.namespace}
        kind = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest"}
        file, ended = self.folder / f"{pod}.yaml", self.folder / f"{pod}.ended"
        file.write_text(yaml.safe_dump({**kind, "metadata": names, "spec": self.cluster.spec}))
        self._logs[pod] = self.folder / f"{pod}.log"
        address = f"127.0.0.1:{free_ports(1)[0]}"
        flags = ("--listen", address, "--termination-log", ended)
        process = CommandProcess("run", file, *flags, log=self._logs[pod])
        self.job = RealJob(process, address, ended, self)
