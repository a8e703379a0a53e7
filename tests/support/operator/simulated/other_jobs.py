"""Jobs of the simulated cluster that no ingestion waits for: they merge, do table services, check a spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bucketingest.spec.job_report import CompactionWork
from bucketingest.spec.model import BucketIngest
from bucketingest_operator.decide.plan import (
    Action,
    CreateCheck,
    CreateCompaction,
    CreateServices,
    DeleteJob,
)
from bucketingest_operator.decide.spec_changes import audit_digest, digest
from bucketingest_operator.observation import CheckJob, CompactionJob, JobState
from bucketingest_operator.resource import Resource
from support.operator.observations import NAMES, NOW, resource, termination
from support.operator.preflights import ended_check


@dataclass
class OtherJobs:
    """Such Jobs of one BucketIngest. Raises AssertionError if the operator breaks a guarantee."""

    now: datetime = NOW
    spec: dict[str, Any] = field(default_factory=dict)
    resource: Resource = field(default_factory=lambda: resource(finalizers=()))
    compactions: dict[str, CompactionJob] = field(default_factory=dict)
    preflights: dict[str, CheckJob] = field(default_factory=dict)
    audits: dict[str, CheckJob] = field(default_factory=dict)
    checked: int = 0  # Jobs so far that check a spec

    def apply_to_other_jobs(self, action: Action, drivers: list[int]) -> None:
        """Carry out an action, if it is about one of these. `drivers`: attempts whose process may run."""
        match action:
            case CreateCompaction(work, key, _):
                self._create_compaction(work, key)
            case CreateServices(wanted):
                assert not drivers, f"table services were started while {drivers} could run"
                self._create_services(wanted)
            case DeleteJob(name):
                for jobs in (self.compactions, self.preflights, self.audits):
                    jobs.pop(name, None)
            case CreateCheck("preflight", _, key, wanted):
                self._create_preflight(key, wanted)
            case CreateCheck("audit", _, key, wanted):
                self._create_audit(key, wanted)
            case _:
                pass

    def _create_compaction(self, work: CompactionWork, key: str) -> None:
        assert not self.spec.get("suspend"), "a Job was created for a suspended pipeline"
        assert not self.resource.deleting
        name = NAMES.compaction(work.number, work.round)
        made = CompactionJob(name, work.number, work.round, key, JobState.RUNNING, self.now, active=1)
        self.compactions.setdefault(name, made)

    def _create_services(self, wanted: BucketIngest) -> None:
        assert wanted.spec.suspend
        assert wanted.spec.services.while_suspended
        assert not self.resource.deleting
        made = CompactionJob(NAMES.services, 0, 0, "", JobState.RUNNING, self.now, active=1)
        self.compactions.setdefault(made.name, made)

    def _create_preflight(self, key: str, wanted: BucketIngest) -> None:
        assert key == digest(wanted)
        assert wanted.spec.upgrade.preflight, "a spec was checked that asks for no check"
        assert not self.resource.deleting
        self.checked += 1
        made = CheckJob(NAMES.preflight(key), f"job-{self.checked}", key, JobState.RUNNING, self.now)
        self.preflights.setdefault(made.name, made)

    def _create_audit(self, key: str, wanted: BucketIngest) -> None:
        assert key == audit_digest(wanted)
        assert not self.spec.get("suspend"), "an audit began for a suspended pipeline"
        assert not self.resource.deleting
        self.checked += 1
        self.audits.setdefault(
            NAMES.audit, CheckJob(NAMES.audit, f"job-{self.checked}", key, JobState.RUNNING, self.now)
        )

    def end_audits(self, code: int | None) -> None:
        """Audits end with this exit code; None: their pods were lost."""
        for name, job in self.audits.items():
            said = None if code is None else termination(code)
            state = JobState.SUCCEEDED if code == 0 else JobState.FAILED
            self.audits[name] = job if job.state is not JobState.RUNNING else replace(job, state=state, report=said)

    def end_preflights(self, *, passes: Callable[[CheckJob], bool], speaks: bool = True) -> None:
        """Checks of specs end."""
        running = [job for job in self.preflights.values() if job.state is JobState.RUNNING]
        self.preflights |= {job.name: ended_check(job, passes=passes(job), speaks=speaks) for job in running}

    def end_compactions(self, state: JobState, *, only_services: bool = False) -> None:
        """Jobs that merge end; `only_services`: those of a suspended resource."""
        for name, job in self.compactions.items():
            if job.state is JobState.RUNNING and (job.does_all or not only_services):
                self.compactions[name] = replace(job, state=state, finished_at=self.now, active=0)
