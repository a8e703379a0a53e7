"""The operator in a cluster in which everything happens at the worst time: crashes, stale reads, wrong clocks."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import CompactionWork, LagReport
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import CheckJob, JobState, Observation, PodReason, PodState
from bucketingest_operator.resource import RESTART_ANNOTATION
from support.operator.observations import report, termination
from support.operator.simulated.fake_cluster import FakeCluster
from support.operator.simulated.rest import check_rest, is_bad

CODES = [1, 2, 3, 4, 6, 7, 9, 10, 13, 14, 16, 17, 19, 20, 137, 143, 99]


class OperatorUnderFire(RuleBasedStateMachine):
    """Every rule is something that can happen at any time."""

    @initialize(
        once=st.booleans(), max_failures=st.sampled_from([2, 10]), settled=st.booleans(), preflight=st.booleans()
    )
    def create(self, once: bool, max_failures: int, settled: bool, preflight: bool) -> None:
        self.cluster = FakeCluster()
        self.cluster.edit(
            commit={"trigger": "once" if once else "2s"},
            restart={"maxFailures": max_failures, "window": "1h"},
            upgrade={"preflight": preflight},
        )
        self.once = once
        self.nonce = 0
        self.seen: list[Observation] = [self.cluster.observe()]
        if settled:
            self.time_passes(3, 1, None)
            self.cluster.progress = report()
            self.time_passes(1, 1, None)

    @rule(passes=st.integers(1, 4), seconds=st.sampled_from([1, 400]), crash_after=st.integers(1, 3) | st.none())
    def time_passes(self, passes: int, seconds: int, crash_after: int | None) -> None:
        for _ in range(passes):
            self._reconcile(self.cluster.observe(), crash_after)
            self._reconcile(self.cluster.observe(), None)
            self.cluster.finish_deletions()
            self.cluster.start_pod()
            self.cluster.pass_time(seconds)

    @rule(crash_after=st.integers(0, 6) | st.none())
    def operator_passes(self, crash_after: int | None) -> None:
        self._reconcile(self.cluster.observe(), crash_after)

    @rule(age=st.integers(1, 6), crash_after=st.integers(0, 6) | st.none())
    def operator_passes_with_an_old_cache(self, age: int, crash_after: int | None) -> None:
        old = self.seen[max(0, len(self.seen) - age)]
        self._reconcile(replace(old, live=False, now=self.cluster.now), crash_after)

    @rule(age=st.integers(1, 6), crash_after=st.integers(0, 6) | st.none())
    def operator_passes_with_old_pods(self, age: int, crash_after: int | None) -> None:
        old = self.seen[max(0, len(self.seen) - age)]
        self._reconcile(replace(old, live=False, now=self.cluster.now, resource=self.cluster.resource), crash_after)

    @rule(age=st.integers(1, 6), crash_after=st.integers(0, 6) | st.none())
    def operator_passes_with_an_old_resource_and_live_pods(self, age: int, crash_after: int | None) -> None:
        old = self.seen[max(0, len(self.seen) - age)]
        self._reconcile(replace(self.cluster.observe(), resource=old.resource), crash_after)

    def _reconcile(self, seen: Observation, crash_after: int | None) -> None:
        if self.cluster.gone:
            return
        self.seen.append(self.cluster.observe())
        self.cluster.apply(reconcile(seen), crash_after=crash_after)

    @rule()
    def node_starts_the_driver(self) -> None:
        self.cluster.start_pod()

    @precondition(lambda self: self.cluster.alive())
    @rule(reason=st.sampled_from([PodReason.IMAGE_PULL, PodReason.UNSCHEDULABLE, PodReason.NONE]))
    def driver_waits(self, reason: PodReason) -> None:
        pod = self.cluster.newest()
        if pod is not None and pod.state is PodState.PENDING:
            self.cluster.set_pod(reason=reason)

    @precondition(lambda self: self.cluster.alive())
    @rule(code=st.sampled_from(CODES), speaks=st.booleans())
    def driver_fails(self, code: int, speaks: bool) -> None:
        said = termination(code) if speaks else None
        self.cluster.set_pod(state=PodState.FAILED, exit_code=code, report=said, finished_at=self.cluster.now)

    @precondition(lambda self: self.cluster.alive())
    @rule(reason=st.sampled_from([PodReason.OOM_KILLED, PodReason.EVICTED]))
    def driver_is_killed(self, reason: PodReason) -> None:
        self.cluster.set_pod(state=PodState.FAILED, reason=reason)

    @precondition(lambda self: self.once)
    @rule()
    def driver_completes(self) -> None:
        pod = self.cluster.newest()
        if pod is None or is_bad(self.cluster.specs[pod.attempt]):
            return
        said = termination(0, error_class="Completed")
        self.cluster.set_pod(state=PodState.SUCCEEDED, exit_code=0, report=said)

    @precondition(lambda self: self.cluster.alive())
    @rule()
    def driver_hangs(self) -> None:
        commits = {"commits": 0, "last_commit": None} if is_bad(self.cluster.runs) else {}
        self.cluster.progress = report(last_report_age_seconds=100_000.0, running_seconds=200_000.0, **commits)

    @precondition(lambda self: self.cluster.alive())
    @rule()
    def user_deletes_the_driver(self) -> None:
        self.cluster.set_pod(terminating=True)

    @precondition(lambda self: any(pod.terminating for pod in self.cluster.pods.values()))
    @rule()
    def nodes_finish_deletions(self) -> None:
        self.cluster.finish_deletions()

    @precondition(lambda self: self.cluster.alive())
    @rule()
    def node_is_lost(self) -> None:
        self.cluster.set_pod(node_gone=True, terminating=True)

    @precondition(lambda self: self.cluster.jobs)
    @rule(state=st.sampled_from([JobState.SUCCEEDED, JobState.FAILED]))
    def rollback_ends(self, state: JobState) -> None:
        self.cluster.finish_jobs(state)

    @precondition(lambda self: self.cluster.alive() and self.cluster.progress is not None)
    @rule(rounds=st.lists(st.integers(0, 3), min_size=1, max_size=3), crash_after=st.integers(0, 3) | st.none())
    def driver_wants_pods_for_a_compaction(self, rounds: list[int], crash_after: int | None) -> None:
        for number in rounds:  # 0: none is pending
            work = CompactionWork(compaction="20261121115000000", number=1, round=number, chunks=2, size=1)
            self.cluster.want_compaction(work if number else None)
            self._reconcile(self.cluster.observe(), crash_after)

    @precondition(lambda self: self.cluster.compactions)
    @rule(state=st.sampled_from([JobState.SUCCEEDED, JobState.FAILED]))
    def compaction_jobs_end(self, state: JobState) -> None:
        self.cluster.end_compactions(state)

    @rule(seconds=st.sampled_from([1, 30, 400, 4000, -30, -4000]))
    def clock_moves(self, seconds: int) -> None:
        self.cluster.pass_time(seconds)

    @rule(suspend=st.booleans())
    def person_suspends_or_resumes(self, suspend: bool) -> None:
        if suspend != bool(self.cluster.spec.get("suspend")):
            self.cluster.edit(suspend=suspend)

    @rule(wanted=st.booleans())
    def person_wants_table_services_while_suspended(self, wanted: bool) -> None:
        self.cluster.edit(services={"whileSuspended": wanted, "compaction": {"logAge": "1m"}})

    @precondition(lambda self: self.cluster.spec.get("suspend") and self.cluster.alive())
    @rule(state=st.sampled_from([JobState.SUCCEEDED, JobState.FAILED]))
    def suspended_table_is_served(self, state: JobState) -> None:
        for _ in range(6):
            self._reconcile(self.cluster.observe(), None)
            self.cluster.finish_deletions()
            self.cluster.finish_jobs()
            self.cluster.end_compactions(state)
            self.cluster.pass_time(4000)

    @rule(rows=st.integers(1, 4))
    def person_changes_the_source(self, rows: int) -> None:
        self.cluster.edit(source={"rate": {"rowsPerSecond": rows}})

    @precondition(lambda self: self.cluster.runs is not None and self.cluster.spec["upgrade"]["preflight"])
    @rule(
        rows=st.integers(1, 4),
        crash_after=st.integers(0, 6) | st.none(),
        ends=st.lists(st.sampled_from(["passes", "fails", "silent"]), max_size=3),
    )
    def person_changes_the_source_of_a_driver_that_commits(
        self, rows: int, crash_after: int | None, ends: list[str]
    ) -> None:
        if not is_bad(self.cluster.runs):
            self.cluster.progress = report()
        for _ in range(2):
            self._reconcile(self.cluster.observe(), None)
        self.cluster.edit(source={"rate": {"rowsPerSecond": rows}})
        for each in ends:
            self._reconcile(self.cluster.observe(), crash_after)
            self._reconcile(self.cluster.observe(), None)
            self.cluster.end_preflights(passes=lambda _, end=each: end == "passes", speaks=each == "fails")  # type: ignore[misc]
            self._reconcile(self.cluster.observe(), crash_after)
            self.cluster.pass_time(400)

    @precondition(lambda self: self.cluster.runs is not None)
    @rule()
    def driver_commits(self) -> None:
        if not is_bad(self.cluster.runs):
            self.cluster.commit()

    @precondition(lambda self: self.cluster.runs is not None)
    @rule(fails=st.booleans())
    def driver_of_a_bad_spec_ends_or_waits_in_vain(self, fails: bool) -> None:
        if is_bad(self.cluster.runs):
            self._cannot_commit(fails=fails)

    def _cannot_commit(self, *, fails: bool) -> None:
        if fails:
            said = termination(ExitCode.BAD_INPUT)
            self.cluster.set_pod(state=PodState.FAILED, exit_code=said.exit_code, report=said)
        else:
            late = LagReport(offsets=9, seconds=100_000)
            self.cluster.progress = report(commits=0, last_commit=None, inflight=None, lag=late, running_seconds=400)

    @precondition(lambda self: self.cluster.preflights)
    @rule(passes=st.booleans(), speaks=st.booleans())
    def preflights_end(self, passes: bool, speaks: bool) -> None:
        self.cluster.end_preflights(passes=lambda _: passes, speaks=speaks)

    @rule(start=st.sampled_from(["11:00", "12:00", "12:10"]) | st.none())
    def person_wants_an_audit(self, start: str | None) -> None:
        window = {"start": start, "duration": "20m"}
        self.cluster.edit(audit=None if start is None else {"against": "postgres://u@h/d", "window": window})

    @precondition(lambda self: self.cluster.audits)
    @rule(code=st.sampled_from([0, 15, 22]) | st.none())
    def audits_end(self, code: int | None) -> None:
        self.cluster.end_audits(code)

    @rule(preflight=st.booleans())
    def person_switches_preflights(self, preflight: bool) -> None:
        if preflight != self.cluster.spec["upgrade"]["preflight"]:
            self.cluster.edit(upgrade={"preflight": preflight})

    @rule()
    def person_asks_for_a_restart(self) -> None:
        self.nonce += 1
        self.cluster.annotate(**{RESTART_ANNOTATION: str(self.nonce)})

    @rule()
    def person_deletes_the_resource(self) -> None:
        # Rarely, because nothing happens after it.
        if len(self.seen) > 12:
            self.cluster.delete()

    @invariant()
    def the_status_fits(self) -> None:
        if hasattr(self, "cluster"):
            assert len(self.cluster.resource.status.attempts or ()) <= 10
            assert len(self.cluster.alive()) <= 1

    def teardown(self) -> None:
        """After the last fault, everything reaches its desired state."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        for _ in range(60):
            if cluster.gone:
                break
            if (pod := cluster.newest()) is not None and pod.state is PodState.PENDING:
                cluster.set_pod(reason=PodReason.NONE)
            cluster.finish_jobs()
            cluster.end_compactions(JobState.SUCCEEDED, only_services=True)
            cluster.end_preflights(passes=self._is_right)
            cluster.finish_deletions()
            cluster.start_pod()
            if cluster.progress is not None and cluster.progress.running_seconds > 100_000 and not cluster.alive():
                cluster.progress = None
            if is_bad(cluster.runs):
                self._cannot_commit(fails=True)
            elif cluster.runs is not None:
                cluster.commit()
            plan = reconcile(cluster.observe())
            cluster.apply(plan)
            cluster.pass_time(plan.look_again.total_seconds())
        check_rest(cluster)

    def _is_right(self, job: CheckJob) -> bool:
        wanted = self.cluster.resource.wanted
        return wanted is not None and job.digest == digest(wanted) and not is_bad(wanted)


OperatorUnderFire.TestCase.settings = settings(stateful_step_count=30)
TestOperatorUnderFire = OperatorUnderFire.TestCase
