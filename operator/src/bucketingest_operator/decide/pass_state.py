"""The state of one pass over one resource: the observation, the draft of the status, the plan so far."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from bucketingest.spec.errors import Problem
from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Phase, Status
from bucketingest_operator.decide.backoff import WAITING_ANSWERS, counted_failures, lasts_too_long
from bucketingest_operator.decide.failures import Answer, Diagnosis, Failure
from bucketingest_operator.decide.plan import (
    Action,
    CreateCheck,
    CreateCompaction,
    CreateRollback,
    CreateServices,
    DeleteDriver,
    EmitEvent,
    Plan,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.decide.spec_changes import cluster_problems, digest, fixed_digest
from bucketingest_operator.decide.status import (
    CATALOG_SYNCED,
    CHECKPOINT_HEALTHY,
    COLUMNS_GROWN,
    COMMIT_FRESH,
    MIRROR_EQUAL,
    READY,
    RECONCILING,
    SCHEMA_REFUSED,
    SCHEMAS_TAKEN,
    SOURCE_COMPLETE,
    STALLED,
    TABLES_HEALTHY,
    TIMELINE_CLEAN,
    Draft,
    Truth,
    shortened,
    truth,
)
from bucketingest_operator.decide.upgrade.last_good import is_back, last_good, spec_to_run
from bucketingest_operator.manifests.attempt_objects import ROLE_LABEL, UID_LABEL
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.observation import AttemptInput, CreationRefusal, Driver, Observation

SOON: Final = timedelta(seconds=5)
WATCHING: Final = timedelta(seconds=15)
QUIET: Final = timedelta(minutes=5)

ROLLBACK_PENDING: Final = "RollbackPending"
COMPLETED: Final = "Completed"
SPEC_INVALID: Final = "SpecInvalid"
SPEC_REFUSED: Final = "SpecRefused"
CREATION_REFUSED: Final = "CreationRefused"
RESTART_WAITING: Final = "RestartWaiting"
# These need a status write before them: it fails if the resource has changed since it was read.
_GUARDED: Final = (StartAttempt, CreateRollback, CreateCompaction, CreateServices, CreateCheck, RemoveFinalizer)


class Pass:
    """Collects what a pass decides. Not kept from one pass to the next."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.resource = seen.resource
        self.now = seen.now.replace(microsecond=0)
        self.names = Names(seen.resource.name, seen.resource.uid)
        self.draft = Draft(seen.resource.status, seen.resource.generation, self.now, seen.resource.created_at)
        self.problems: tuple[Problem, ...] = seen.resource.problems
        wanted = seen.resource.wanted
        if wanted is not None:
            self.problems += cluster_problems(wanted)
        self.last_good = last_good(seen)
        self.is_back = self.last_good is not None and is_back(seen)
        """The wanted spec has failed, and the last one that committed runs instead."""
        self.startable = spec_to_run(seen)
        """The spec of the next attempt; also for a resource whose own spec cannot be used, if one has committed."""
        self.wanted: BucketIngest | None = None if self.problems else self.last_good if self.is_back else wanted
        self._forget_what_is_not_wanted()
        self._actions: list[Action] = []
        self._events: list[EmitEvent] = []
        self.kept_preflight: str | None = None
        """Name of the Job that checks the wanted spec."""
        self.look_again = QUIET
        self.look_live = False

    @property
    def suspended(self) -> bool:
        """Whether the resource asks for no driver, even if the rest of its spec is wrong."""
        wanted = self.resource.wanted
        return self.resource.suspends if wanted is None else wanted.spec.suspend

    @property
    def alive(self) -> tuple[Driver, ...]:
        """Driver pods, of all attempts, whose process may run now or later."""
        return tuple(pod for pod in self.seen.drivers if pod.can_run)

    def attempt_input(self) -> AttemptInput | None:
        """What the newest attempt was started with."""
        current = self.draft.current
        return None if current is None else self.seen.inputs.get(current.number)

    def do(self, action: Action) -> None:
        """Add an action to the plan."""
        self._actions.append(action)

    def event(self, kind: Literal["Normal", "Warning"], reason: str, message: str, about: object = "") -> None:
        """Add an event to the plan."""
        self._events.append(EmitEvent(kind, reason, message, str(about or self.draft.number)))

    def take_report(self, report: ProgressReport) -> None:
        """Put what the driver reports into the status. Schemas that it took or refused are an event, and tables that
        it cannot write.
        """
        before, tables = self.draft.condition(SCHEMAS_TAKEN), self.draft.condition(TABLES_HEALTHY)
        self.draft.take_report(report, self.seen.contact.read_at)
        found = self.draft.condition(TABLES_HEALTHY)
        if found is not None and found.status == "False" and (tables is None or tables.reason != found.reason):
            self.event("Warning", found.reason, found.message, found.message)
        now = self.draft.condition(SCHEMAS_TAKEN)
        if now is None or now.reason not in {SCHEMA_REFUSED, COLUMNS_GROWN}:
            return
        if before is None or (before.reason, before.message) != (now.reason, now.message):
            kind: Literal["Normal", "Warning"] = "Warning" if now.reason == SCHEMA_REFUSED else "Normal"
            self.event(kind, now.reason, now.message, now.message)

    def _forget_what_is_not_wanted(self) -> None:
        """Drop conditions of what the spec does not have any more: no driver will say anything of it."""
        if self.wanted is None:
            return
        spec = self.wanted.spec
        for kind, is_wanted in (
            (SCHEMAS_TAKEN, spec.format is not None and spec.format.registry is not None),
            (SOURCE_COMPLETE, spec.source.files is not None),
            (CATALOG_SYNCED, bool(spec.catalogs)),
            (TABLES_HEALTHY, spec.tables is not None),
            (MIRROR_EQUAL, spec.audit is not None),
        ):
            if not is_wanted:
                self.draft.drop(kind)

    def look(self, after: timedelta) -> None:
        """Make the next pass no later than this."""
        self.look_again = max(timedelta(seconds=1), min(self.look_again, after))

    def needs_live(self) -> bool:
        """Whether this cannot be decided from copies, since something is missing in them: only the API server knows
        what is gone. The plan is then made again from a live look.
        """
        self.look_live = not self.seen.live
        return self.look_live

    def set_phase(self, phase: Phase, ready: Truth, reason: str, message: str, *, working: bool) -> None:
        """Set phase, Ready and Reconciling together."""
        self.draft.phase(phase)
        self.draft.set(READY, ready, reason, message)
        self.draft.set(RECONCILING, truth(value=working), reason, message)
        if ready != "True":
            self.draft.set(COMMIT_FRESH, "Unknown", reason, message)

    def stall(self, reason: str, message: str) -> None:
        """Stop trying until a person changes something."""
        before = self.draft.condition(STALLED)
        if before is None or before.status != "True" or before.reason != reason:
            self.event("Warning", reason, f"Stalled: {message}")
        self.set_phase("Stalled", "False", reason, message, working=False)
        self.draft.set(STALLED, "True", reason, message)

    def not_stalled(self) -> None:
        """End a stall. One that is tried again by itself lasts until a driver works: alerts must not come and go."""
        if self.tries_again and not self._works():
            return
        self.draft.set(STALLED, "False", "Progressing")

    @property
    def tries_again(self) -> bool:
        """Whether the stall may end by itself, and no person has changed anything since: credentials are renewed."""
        stalled, given = self.draft.condition(STALLED), self.attempt_input()
        asked = given is not None and given.nonce != self.resource.nonce
        return self.stalled and stalled is not None and stalled.reason == Failure.ACCESS_DENIED.value and not asked

    def _works(self) -> bool:
        report, current = self.seen.contact.report, self.draft.current
        ended = current is None or current.ended_at is not None
        return self.suspended or (report is not None and report.phase != "starting" and not ended)

    @property
    def stalled(self) -> bool:
        """Whether an earlier pass stalled on exactly this generation of the spec."""
        stalled = self.draft.condition(STALLED)
        return (
            stalled is not None
            and stalled.status == "True"
            and stalled.reason not in {SPEC_INVALID, SPEC_REFUSED}
            and stalled.observed_generation == self.resource.generation
        )

    @property
    def rollback_pending(self) -> bool:
        """Whether the open instant of the newest attempt must be rolled back before the next."""
        clean = self.draft.condition(TIMELINE_CLEAN)
        return clean is not None and clean.status == "False" and clean.reason == ROLLBACK_PENDING

    def delete(self, pod: Driver) -> None:
        """Delete a driver pod: gracefully, or by force if its node is gone. Once is enough."""
        if pod.node_gone:
            self.do(DeleteDriver(pod.attempt, pod.name, force=True, uid=pod.uid))
        elif not pod.terminating:
            current = self.draft.current
            stuck = current is not None and current.outcome == Failure.STUCK.value
            self.do(DeleteDriver(pod.attempt, pod.name, stuck=stuck, uid=pod.uid))
        self.look(SOON)

    def close(self, outcome: str, message: str, diagnosis: Diagnosis | None) -> None:
        """Write the end of the newest attempt, whose driver pod can no longer run."""
        current = self.draft.current
        assert current is not None
        pod = self.seen.driver(current.number)
        ended = self.now if pod is None or pod.finished_at is None else min(pod.finished_at, self.now)
        if current.started_at is not None:
            ended = max(ended, current.started_at)
        self.draft.change(ended_at=ended.replace(microsecond=0), outcome=outcome, message=message)
        if diagnosis is None:
            return
        self.event("Warning", diagnosis.failure.value, f"Attempt {current.number} failed: {message}")
        treatment = diagnosis.treatment
        if treatment.rollback:
            self.draft.set(TIMELINE_CLEAN, "False", ROLLBACK_PENDING, "The open instant must be rolled back.")
        if diagnosis.failure.value == "CheckpointLost":
            self.draft.set(CHECKPOINT_HEALTHY, "False", "CheckpointLost", message)
        lasting = treatment.answer is Answer.WAIT_THEN_STALL and lasts_too_long(self.draft.attempts, self._went_on_at())
        if treatment.answer is Answer.STALL or lasting:
            self.stall(diagnosis.failure.value, message)
        elif treatment.answer not in WAITING_ANSWERS:
            self._break_circuit(message)

    def _break_circuit(self, message: str) -> None:
        wanted = self.resource.wanted
        if wanted is None:
            return
        count = len(self.failures(wanted))
        if count >= wanted.spec.restart.max_failures:
            self.stall("TooManyFailures", f"{count} attempts failed within restart.window; the last: {message}")

    def failures(self, wanted: BucketIngest) -> tuple[datetime, ...]:
        """Ends of the failed attempts that count for the circuit breaker: those since a person ended a stall."""
        ended = [each for each in self.draft.attempts if each.ended_at is not None]
        attempt_input = self.seen.inputs.get(ended[-1].number) if ended else None
        before = () if attempt_input is None else attempt_input.failures
        return counted_failures(before, ended, self._went_on_at(), self.now, wanted.spec.restart)

    def _went_on_at(self) -> datetime | None:
        """When the last stall ended; None during one. Failures of a spec that has given way do not count either."""
        stalled, upgrade = self.draft.condition(STALLED), self.draft.upgrade
        if stalled is None or stalled.status != "False":
            return None
        back = None if upgrade is None or upgrade.trial is None else upgrade.trial.failed_at
        return stalled.last_transition_time if back is None else max(back, stalled.last_transition_time)

    def start(self, wanted: BucketIngest) -> None:
        """Write a new attempt into the status, then create it. Its number was never used."""
        used = [self.draft.number, *self.seen.inputs]
        used += [pod.attempt for pod in self.seen.drivers] + [job.attempt for job in self.seen.jobs]
        number = max(used) + 1
        self.draft.intend(number, self.names.driver(number))
        self.event("Normal", "AttemptStarting", f"Starting attempt {number}.")
        self.create(wanted)

    def create(self, wanted: BucketIngest) -> None:
        """Create what the newest attempt needs, as far as it does not exist."""
        attempt_input = AttemptInput(digest(wanted), fixed_digest(wanted), self.resource.nonce, self.failures(wanted))
        upgrade = self.draft.upgrade
        before = upgrade is not None and wanted == self.last_good
        generation = upgrade.generation if upgrade is not None and before else self.resource.generation
        self.draft.change(generation=generation)
        ended = [pod.name for pod in self.seen.drivers if pod.has_ended]
        self.do(StartAttempt(self.draft.number, attempt_input, wanted, (*self.seen.ended_drivers, *ended)))
        self.look(SOON)
        if self.seen.creation_refusal is not None:
            # The reason stays until the API server accepts it.
            self.report_refusal(self.seen.creation_refusal)
            return
        message = f"Attempt {self.draft.number} is starting."
        self.set_phase("Starting", "False", "AttemptStarting", message, working=True)

    def refused(self) -> bool:
        """Whether the API server refused the last creation, and it is too early for another. Reports it."""
        refusal = self.seen.creation_refusal
        if refusal is None or refusal.retry_in <= timedelta(0):
            return False
        self.report_refusal(refusal)
        self.look(refusal.retry_in)
        return True

    def report_refusal(self, refusal: CreationRefusal) -> None:
        """Report what the API server said."""
        before = {(each.type, each.reason) for each in self.resource.status.conditions or ()}
        message = shortened(refusal.message)
        if (READY, CREATION_REFUSED) not in before:
            self.event("Warning", CREATION_REFUSED, message)
        self.set_phase("Pending", "False", CREATION_REFUSED, message, working=True)

    def _is_news(self, status: Status) -> bool:
        """Whether a status must be written. A short wait for a turn is said with what else there is to say."""
        before = self.resource.status
        if not self.seen.waits_long:
            old = next((each for each in before.conditions or () if each.type == RECONCILING), None)
            found = tuple(old if each.reason == RESTART_WAITING else each for each in status.conditions or ())
            status = status.model_copy(update={"conditions": found})
        return status != before

    def plan(self) -> Plan:
        """The plan: the status first, then the actions, then the events."""
        status = self.draft.status().model_copy(
            update={
                "executors": self.seen.executors.running,
                "executor_selector": f"{UID_LABEL}={self.resource.uid},{ROLE_LABEL}=executor",
            }
        )
        actions: list[Action] = []
        if self._is_news(status) or any(isinstance(each, _GUARDED) for each in self._actions):
            actions.append(WriteStatus(status, self.resource.version))
        return Plan((*actions, *self._actions, *self._events), status, self.look_again, self.look_live)
