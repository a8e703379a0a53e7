"""A cluster small enough to be checked after each step: it applies the operator's plans, and has its own events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from bucketingest.spec.job_report import CompactionWork, ProgressReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest_operator.decide.failures import TREATMENTS, Answer, failure_of
from bucketingest_operator.decide.plan import (
    Action,
    AddFinalizer,
    CreateRollback,
    DeleteAttempt,
    DeleteDriver,
    Plan,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import (
    AttemptInput,
    Contact,
    Driver,
    JobState,
    Observation,
    PodState,
    RollbackJob,
)
from bucketingest_operator.resource import FINALIZER
from support.operator.observations import NAMES, bucket_ingest, report, services
from support.operator.simulated.other_jobs import OtherJobs


def _is_last(outcome: str | None) -> bool:
    failure = failure_of(outcome)
    return outcome == "Completed" or (failure is not None and TREATMENTS[failure].answer is Answer.STALL)


class Conflict(Exception):
    """The resource has changed since it was read."""


@dataclass
class FakeCluster(OtherJobs):
    """One BucketIngest and its objects. Raises AssertionError if the operator breaks a guarantee."""

    gone: bool = False
    pods: dict[int, Driver] = field(default_factory=dict)
    inputs: dict[int, AttemptInput] = field(default_factory=dict)
    specs: dict[int, BucketIngest] = field(default_factory=dict)
    """What the ConfigMaps of attempts hold."""
    jobs: dict[int, RollbackJob] = field(default_factory=dict)
    progress: ProgressReport | None = None
    rolled_back: set[int] = field(default_factory=set)
    over_at: dict[int, int] = field(default_factory=dict)
    """Attempt after which nothing may start by itself → generation at which its end was written."""

    # ---------------------------------------------------------------------------------------------------- the operator
    def observe(self, *, live: bool = True) -> Observation:
        """The observation of a pass."""
        return Observation(
            now=self.now,
            resource=self.resource,
            drivers=tuple(self.pods.values()),
            inputs=dict(self.inputs),
            jobs=tuple(self.jobs.values()),
            compaction_jobs=tuple(self.compactions.values()),
            preflights=tuple(self.preflights.values()),
            audits=tuple(self.audits.values()),
            contact=self.contact(),
            live=live,
            last_good=self._last_good(),
        )

    def _last_good(self) -> BucketIngest | None:
        """As the observer reads it."""
        upgrade, wanted = self.resource.status.upgrade, self.resource.wanted
        if upgrade is None:
            return None
        assert upgrade.attempt in self.specs, "the ConfigMap of the last attempt that committed was deleted"
        same = wanted is not None and digest(wanted) == upgrade.digest
        return None if same else self.specs[upgrade.attempt]

    def contact(self) -> Contact:
        """The job's answer, if a driver runs."""
        running = any(pod.state is PodState.RUNNING for pod in self.pods.values())
        return Contact(self.progress) if running else Contact()

    def apply(self, plan: Plan, *, crash_after: int | None = None) -> None:
        """Carry out a plan, up to a crash of the operator, or to a write that the API server refuses."""
        for action in plan.actions[:crash_after]:
            try:
                self._apply(action)
            except Conflict:
                return

    def _apply(self, action: Action) -> None:
        match action:
            case WriteStatus(status, version):
                self._write(status, version)
            case AddFinalizer():
                self._change(finalizers=(*self.resource.finalizers, FINALIZER))
            case RemoveFinalizer():
                assert self.resource.deleting
                assert not self.alive(), f"the resource was released while {self.alive()} could run"
                self._change(finalizers=())
                self.gone = True
            case StartAttempt(number, attempt_input, wanted):
                assert attempt_input.spec_digest == digest(wanted)
                self._start(number, attempt_input, wanted)
            case DeleteDriver(number, name, force):
                self._delete(number, name, force=force)
            case DeleteAttempt(number):
                assert number not in self.alive(), f"attempt {number} was deleted while it could run"
                for objects in (self.pods, self.inputs, self.specs, self.jobs):
                    objects.pop(number, None)
            case CreateRollback(number, _):
                assert not self.alive(), f"a rollback started while {self.alive()} could run"
                self.rolled_back.add(number)
                self.jobs.setdefault(number, RollbackJob(number, JobState.RUNNING))
            case _:
                self.apply_to_other_jobs(action, self.alive())

    def _write(self, status: Status, version: str) -> None:
        if self.resource.version != version:
            raise Conflict
        read_back = Status.from_document(status.to_document())
        attempts = read_back.attempts or ()
        if read_back.phase == "Suspended" and attempts and attempts[-1].outcome == "Stuck":
            assert attempts[-1].number in self.rolled_back, "suspended with an open instant"
        for each in attempts:
            if each.ended_at is not None and _is_last(each.outcome):
                self.over_at.setdefault(each.number, self.resource.generation)
        if read_back != self.resource.status:
            self._change(status=read_back)

    def _start(self, number: int, attempt_input: AttemptInput, wanted: BucketIngest) -> None:
        self.inputs.setdefault(number, attempt_input)
        self.specs.setdefault(number, wanted)
        upgrade = self.resource.status.upgrade
        trial = None if upgrade is None else upgrade.trial
        if trial is not None and trial.failed_at is not None:
            assert attempt_input.spec_digest != trial.digest, f"attempt {number} runs a spec that has failed"
        if number in self.pods:
            return
        assert not self.alive(), f"attempt {number} started while {self.alive()} could run"
        attempts = self.resource.status.attempts or ()
        # Again only if no pass has seen its pod, which was deleted before the next observation.
        intended = [each for each in attempts if each.number == number and each.ended_at is None]
        assert intended, f"attempt {number} was not intended in the status"
        assert intended[0].started_at is None, f"attempt {number} was created again"
        before = max((each.number for each in attempts if each.number < number), default=0)
        if before in self.over_at and before in self.inputs:
            old = self.inputs[before]
            same = (old.spec_digest, old.nonce) == (attempt_input.spec_digest, attempt_input.nonce)
            changed = self.resource.generation != self.over_at[before] and attempts[-2].outcome != "Completed"
            assert changed or not same, f"attempt {number} follows one that must be the last"
        running = [each for each, job in self.jobs.items() if job.state is JobState.RUNNING]
        assert not running, f"attempt {number} started beside the rollback of {running}"
        self.pods[number] = Driver(number, NAMES.driver(number), PodState.PENDING, self.now)

    def _delete(self, number: int, name: str, *, force: bool) -> None:
        pod = self.pods.get(number)
        if pod is None:
            return
        assert pod.name == name
        if force:
            assert pod.node_gone, "a pod was deleted by force while its process may run"
            del self.pods[number]
        else:
            self.pods[number] = replace(pod, terminating=True)

    # ---------------------------------------------------------------------------------------- nodes, jobs and users
    def alive(self) -> list[int]:
        """Attempts whose process may run, now or later."""
        return [number for number, pod in self.pods.items() if pod.can_run and not pod.node_gone]

    def newest(self) -> Driver | None:
        """The newest driver pod that has not ended."""
        alive = self.alive()
        return self.pods[max(alive)] if alive else None

    def set_pod(self, **changes: Any) -> None:
        """Something happens to the driver pod."""
        pod = self.newest()
        if pod is not None:
            self.pods[pod.attempt] = replace(pod, **changes)

    def finish_deletions(self) -> None:
        """The nodes end what is being deleted."""
        for number in [number for number, pod in self.pods.items() if pod.terminating]:
            del self.pods[number]

    def start_pod(self) -> None:
        """The node starts the driver, and the job answers."""
        pod = self.newest()
        if pod is not None and pod.state is PodState.PENDING:
            self.set_pod(state=PodState.RUNNING)
            self.progress = report(running_seconds=5.0, commits=0, last_commit=None, inflight=None)

    @property
    def runs(self) -> BucketIngest | None:
        """The spec of the driver that runs."""
        pod = self.newest()
        return None if pod is None or pod.state is not PodState.RUNNING else self.specs[pod.attempt]

    def commit(self) -> None:
        """The driver commits."""
        if self.progress is not None:
            self.progress = self.progress.model_copy(update={"commits": 1})

    def finish_jobs(self, state: JobState = JobState.SUCCEEDED) -> None:
        """Rollback Jobs end."""
        for number, job in self.jobs.items():
            if job.state is JobState.RUNNING:
                self.jobs[number] = replace(job, state=state)

    def want_compaction(self, work: CompactionWork | None) -> None:
        """The driver's compaction moves on."""
        if self.progress is not None:
            compacting = None if work is None else work.compaction
            self.progress = self.progress.model_copy(update={"services": services(job=work, compacting=compacting)})

    def edit(self, **spec: Any) -> None:
        """A person changes the spec."""
        self.spec = {**self.spec, **spec}
        self._change(wanted=bucket_ingest(self.spec), generation=self.resource.generation + 1)

    def annotate(self, **changes: str | None) -> None:
        """A person sets annotations; None takes one away."""
        found = {**self.resource.annotations, **changes}
        self._change(annotations={name: value for name, value in found.items() if value is not None})

    def delete(self) -> None:
        """A person deletes the resource."""
        if not self.resource.deleting:
            self._change(deleting=True)
            self.gone = FINALIZER not in self.resource.finalizers

    def pass_time(self, seconds: float) -> None:
        """The clock advances; negative: it is set back."""
        self.now += timedelta(seconds=seconds)

    def _change(self, **changes: Any) -> None:
        self.resource = replace(self.resource, version=str(int(self.resource.version) + 1), **changes)
