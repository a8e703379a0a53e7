"""Table services inside the job: short steps between two commits, long work in a process beside it, or in pods.

The job calls `step` between two micro-batches whenever `is_due`. A step never takes long: it reads the answer of the
process beside the job, writes at most one commit, and starts the next request. One request is out at a time:

    Propose  what is due?          -> request that compaction, or begin that clustering, or rest
    Execute  merge file groups     -> a round of the compaction is done; the holder says what is next
    Tidy     clean, then archive   -> note what went; look again
    (clustering)  make new groups  -> commit them, while no instant is open

* After a commit of a service the next look is at once; with nothing due, after `LOOK_EVERY`, or when a log file
  becomes old enough.
* A failure ends no ingestion. It is counted, logged and tried again, after longer and longer pauses. Only a lost
  lease, another attempt, or a clustering that nobody can settle ends the job.
* A merge that kills its process three times is given up; its file groups rest for a day.
* What a step leaves open is on storage: `stop`, a crash and a new attempt continue it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.lease.record import LeaseError
from bucketingest.services.clustering.inline import InlineClustering, Made
from bucketingest.services.clustering.propose import ClusteringLook
from bucketingest.services.compaction.choose import CompactionTriggers, look_after
from bucketingest.services.compaction.commit import Ready
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.records import Ended, Task, Work
from bucketingest.services.compaction.sweep import Swept
from bucketingest.services.errors import ClusteringInDoubt, PlanOutdated, RoundEnded, StepFailed, WorkerDied
from bucketingest.services.placement import Home, LeftToHudi, ServicesPolicy, left_to_hudi
from bucketingest.services.pods.waiting import POLL, Pods
from bucketingest.services.protocol.executor import TOO_LARGE
from bucketingest.services.protocol.records import End
from bucketingest.services.schedule import LOOK_EVERY, Schedule
from bucketingest.services.state import ServicesState, damage_report, with_damage
from bucketingest.services.worker import Execute, Looked, Propose, Request, Tidied, Tidy
from bucketingest.services.worker_process import WorkerProcess
from bucketingest.storage import Storage
from bucketingest.write.errors import FencedOut

log = logging.getLogger(__name__)

Start = Callable[[Request], WorkerProcess]


class InlineServices:
    """Compacts the table of a running job. Call `step` between two micro-batches; not from two threads at once."""

    def __init__(
        self,
        storage: Storage,
        holder: CompactionHolder,
        triggers: CompactionTriggers | None,
        *,
        forward: Callable[[], float] = forward_seconds,
        start: Start = WorkerProcess,
        tidy: Tidy | None = None,
        policy: ServicesPolicy | None = None,
        clustering: InlineClustering | None = None,
        between: Callable[[], bool] = lambda: True,
        lets_clean: Callable[[float], bool] = lambda _: True,
        report: Callable[[ServicesState], None] = lambda _: None,
    ) -> None:
        """`triggers` None: nothing new is started, what is pending is finished. `forward`: seconds by a clock that
        cannot be set. `start`: starts the process beside the job. `tidy`: cleans and archives, unless None. `policy`:
        where compactions are merged; None: inline. `clustering`: merges small file groups, unless None. `between`:
        whether the job has no instant open, which might write to file groups that a clustering replaces. `lets_clean`:
        whether no catalog names files any more that were superseded until a moment, by the clock `forward`. `report` is
        called with every change.
        """
        self._storage = storage
        self._holder = holder
        self._triggers = triggers
        self._forward = forward
        self._start = start
        self._tidy = tidy
        self._policy = policy or ServicesPolicy()
        # Before the first look, mode auto does not know what Hudi's services do.
        left = None if self._policy.mode == "auto" else LeftToHudi()
        self._schedule = Schedule.at_start(forward(), tidies=tidy is not None, left=left)
        self._pods = Pods(storage, self._policy, forward)
        self._clustering = clustering
        self._between = between
        self._lets_clean = lets_clean
        self._makes_groups = False
        self._tell = report
        self._report = ServicesState()
        self._worker: WorkerProcess | None = None
        self._work: Work | None = None

    @property
    def pid(self) -> int | None:
        """Process id of what runs beside the job. Any thread may ask."""
        worker = self._worker
        return None if worker is None else worker.pid

    def is_due(self) -> bool:
        """Whether `step` has something to do. No I/O. A clustering is committed between two instants. Any thread may
        ask.
        """
        worker = self._worker
        if worker is None:
            return self._schedule.is_look_due(self._forward())
        return worker.has_ended() and (not self._makes_groups or self._between())

    def finish(self) -> None:
        """The job ends with its input: the next look is due now, and a clean after it. May be repeated."""
        self._schedule.finish(self._forward(), busy=self._worker is not None)

    @property
    def has_finished(self) -> bool:
        """Whether nothing is due any more after `finish`, and no pod is waited for; or it failed."""
        waits = self._pods.work is not None and not self._schedule.failures
        return self._schedule.finishes and self._worker is None and not self.is_due() and not waits

    def step(self) -> None:
        """Do what is due: a few requests to storage, at most a commit.

        A failure is logged, and tried again later, whatever it is: ingestion goes on. Raises LeaseError, FencedOut,
        ClusteringInDoubt: then the job must end.
        """
        try:
            self._step()
        except (LeaseError, FencedOut, ClusteringInDoubt):
            raise
        except PlanOutdated as error:
            log.info("compaction not requested", extra={"reason": str(error)})
            self._look_again(self._rest())
        except RoundEnded as error:
            log.warning("compaction interrupted", extra={"reason": str(error)})
            self._look_again(self._rest())
        except BucketIngestError as error:
            self._fail(error)
        except Exception as error:
            log.exception("table service failed")
            self._fail(StepFailed(f"{type(error).__name__}: {error}"))

    def _fail(self, error: BucketIngestError) -> None:
        pause = self._schedule.failed(error)
        self._note(failures=self._report.failures + 1, failing=self._schedule.failures, last_error=error)
        log.error("table service failed", extra={"reason": str(error), "again_in_seconds": pause.total_seconds()})
        self._look_again(pause)

    def _succeed(self) -> None:
        self._schedule.failures = 0
        if self._report.failing:
            self._note(failing=0)

    def stop(self) -> None:
        """End what runs beside the job: the next start continues it."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = self._schedule.next_look = None

    def _step(self) -> None:
        if self._worker is None:
            if self._pods.needs_holder():
                self._look()
            else:
                self._succeed()
                self._look_again(POLL)
            return
        worker, work = self._worker, self._work
        self._worker = self._work = None
        self._makes_groups = False
        try:
            answer = worker.answer()
        except WorkerDied:
            if work is not None and worker.operation is not None:
                self._schedule.died(worker.operation)
            raise
        self._succeed()
        if isinstance(answer, Looked):
            self._schedule.looked(self._forward(), answer.commits)
            damage = with_damage(self._report.damage, answer.damaged)
            self._note(backlog=answer.look.backlog, damage=damage)
            self._leave_to_hudi(left_to_hudi(self._policy.mode, answer.foreign))
        if isinstance(answer, Looked) and answer.look.proposal is not None and not self._schedule.leaves_compaction:
            self._holder.request(answer.look.proposal)
            self._look()
        elif isinstance(answer, Looked) and answer.clustering is not None:
            self._begin_clustering(answer.clustering)
        elif isinstance(answer, Made):
            self._commit_clustering(answer)
        elif isinstance(answer, Tidied):
            before = self._report
            self._note(
                cleaned_files=before.cleaned_files + answer.files,
                archived_instants=before.archived_instants + answer.instants,
                damage=damage_report(answer.damaged, before.damage),
                pins=answer.pins,
            )
            self._look()
        elif isinstance(answer, Ready | Swept):
            self._look(answer)
        else:
            self._look_again(self._rest())

    def _rest(self, merged_to: datetime | None = None) -> timedelta:
        """Until the next look, where nothing is due. `merged_to`: no log file is older, as a compaction has just ended
        that was requested then.
        """
        backlog = self._report.backlog
        oldest_at = merged_to if merged_to is not None or backlog is None else backlog.oldest_at
        return LOOK_EVERY if self._triggers is None else look_after(oldest_at, self._triggers, utc_now(), LOOK_EVERY)

    def _begin_clustering(self, look: ClusteringLook) -> None:
        """Start the clustering that is due."""
        self._note(small_groups=look.small)
        work = None
        if look.plan is not None and self._clustering is not None and not self._schedule.leaves_compaction:
            work = self._clustering.begin(look.plan)
        if work is None:
            self._look_again(self._rest())
        else:
            self._worker, self._makes_groups = self._start(work), True

    def _commit_clustering(self, made: Made) -> None:
        assert self._clustering is not None, "it was started"
        ended, before = self._clustering.end(made), self._report
        if ended.replaced:
            self._note(clusterings=before.clusterings + 1, merged_groups=before.merged_groups + len(ended.replaced))
            self._schedule.superseded_at = self._forward()
            self._look()  # for the next one
        else:
            self._look_again(self._rest())

    def _look(self, found: Ready | Swept | None = None) -> None:
        if self._clustering is not None:
            self._clustering.settle()
        # Also while a compaction waits, perhaps for ever. A job that ends compacts first.
        if found is None and not self._schedule.finishes and self._is_tidy_due() and self._holder.open_compaction():
            self._tidy_up()
            return
        state = self._holder.advance(found, lists=False)
        if isinstance(state, Work):
            self._note(compacting=state.compaction)
            if not self._goes_to_pods(state):
                self._work = state
                self._worker = self._start(Execute(self._storage, state, dict(self._schedule.given_up)))
            return
        self._schedule.nothing_merges()
        self._want_no_pods()
        if isinstance(state, Ended):
            self._note_end(state)
        pending = self._holder.open_compaction()
        if pending != self._report.compacting:
            self._note(compacting=pending)
        if state is None and pending is None:
            if self._triggers is None:
                self._schedule.next_look = None
            elif self._is_tidy_due():
                self._tidy_up()
            else:
                wish = None if self._clustering is None else self._clustering.wish()
                self._worker = self._start(
                    Propose(self._storage, self._triggers, self._schedule.resting(self._forward()), wish)
                )
        else:
            merged_to = parse_time(state.compaction) if state is not None and state.end is End.COMPLETED else None
            self._look_again(LOOK_EVERY if merged_to is None else self._rest(merged_to))

    def _tidy_up(self) -> None:
        assert self._tidy is not None, "it is due"
        self._schedule.tidied(self._forward())
        self._worker = self._start(self._tidy)

    def _goes_to_pods(self, work: Work) -> bool:
        """Only clusterings do: what else takes long is for the process beside the job."""
        if work.task is not Task.MERGE:
            self._want_no_pods()
            return False
        choice = self._pods.place(work)
        self._note(home=choice.home, why=choice.why, pod_work=self._pods.work)
        if choice.home is not Home.JOB:
            return False
        self._look_again(POLL)
        return True

    def _want_no_pods(self) -> None:
        self._pods.end()
        if self._report.pod_work is not None:
            self._note(pod_work=None)

    def _is_tidy_due(self) -> bool:
        return self._schedule.is_tidy_due(self._forward()) and self._lets_clean(self._schedule.superseded_at)

    def _leave_to_hudi(self, left: LeftToHudi) -> None:
        before, self._schedule.left = self._schedule.left, left
        if left == before:
            return
        if left.tidying is not None:
            self._note(pins=())  # nobody looks any more
        if left.compaction is not None:
            self._note(home=None, why=f"{left.compaction}: this job leaves table services to it")
        elif before is not None and before.compaction is not None:
            self._note(why=None)
        if left != LeftToHudi() or before is not None:
            extra = {"compaction": left.compaction or "this job", "clean_and_archive": left.tidying or "this job"}
            log.info("table services assigned", extra=extra)

    def _note_end(self, ended: Ended) -> None:
        if ended.end is End.COMPLETED:
            count = self._report.compactions + 1
            self._note(compactions=count, last_compaction=ended.compaction, last_compaction_at=utc_now())
            self._schedule.superseded_at = self._forward()
        self._schedule.rest_groups(self._forward(), ended.failed)
        large = next((group for group, why in ended.failed.items() if why.startswith(TOO_LARGE)), None)
        if large is not None or ended.file_groups:
            self._note(too_large=None if large is None else f"{large[1]} of partition {large[0]!r}")

    def _note(self, **changes: Any) -> None:
        self._report = replace(self._report, **changes)
        self._tell(self._report)

    def _look_again(self, pause: timedelta) -> None:
        self._schedule.look_again(self._forward(), pause, cleans_first=self._pods.work is None and self._is_tidy_due())
