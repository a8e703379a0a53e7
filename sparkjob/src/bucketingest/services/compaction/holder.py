"""The steps of a compaction that only the holder of the table's lease takes: request it, open a round, end it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bucketingest.hudi.errors import InstantExists, InvalidTable
from bucketingest.hudi.rollback.pending import pending_rollbacks
from bucketingest.hudi.rollback.rollback import finish_compaction_rollback
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, State
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested, path_of
from bucketingest.services.compaction.clash import clash, requested_path
from bucketingest.services.compaction.commit import Ready, late_logs, ready_commit, undecided, wanted_decision
from bucketingest.services.compaction.decide import Choice, Facts, Step, decide
from bucketingest.services.compaction.facts import read_facts
from bucketingest.services.compaction.propose import Proposal, claimed, open_at, services_of
from bucketingest.services.compaction.records import CompactionJournal, Ended, PlanRecord, Round, Task, Work
from bucketingest.services.compaction.sweep import (
    EndedCompaction,
    Swept,
    keep_one,
    left_over,
    sweep,
    take_off_late,
)
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.merge.merge_group import MERGE_VERSION
from bucketingest.services.protocol.holder import ServiceHolder
from bucketingest.services.protocol.records import HEARTBEAT, End
from bucketingest.write.instants.records import AbortDecision, CommitDecision, Decision

log = logging.getLogger(__name__)

_STEPS_MAX: Final = 12


class CompactionHolder(ServiceHolder[PlanRecord]):
    """The steps of compactions. One at a time; each may be repeated after a failure."""

    JOURNAL = CompactionJournal
    _journal: CompactionJournal
    _failed: Mapping[Group, str] = MappingProxyType({})

    def request(self, proposal: Proposal) -> int:
        """Put the proposed compaction on the timeline; returns its number.

        Raises PlanOutdated if something came between, as the lease's check does, and what writing raises.
        """
        with self._lock():
            timeline = Timeline.load(self._storage)
            record = proposal.record
            number = self._record(record, self._refusal(timeline, proposal))
            self._check_lease()
            try:
                create_requested(self._storage, record.compaction, COMPACTION, record.content)
            except InstantExists:  # another writer's of the same millisecond, or our own, whose answer was lost
                if self._storage.get(requested_path(record.compaction)) != record.content:
                    self._journal.put_go(number, start=False)
                    raise PlanOutdated(f"{self._storage.url}: another writer took time {record.compaction}") from None
            timeline = Timeline.load(self._storage)
            as_seen = services_of(timeline) == proposal.seen | {(record.compaction, COMMIT)}
            why = clash(self._storage, timeline, record)
            if self._journal.put_go(number, start=as_seen and why is None):
                log.info("compaction requested", extra={"number": number, **proposal.summary()})
                return number
            # A scheduler without a lock came between: two pending operations of a group make every reader fail.
            found = timeline.find(record.compaction, COMPACTION)
            if found is not None and found.state is State.REQUESTED:  # else another writer carries it out
                self._storage.delete(requested_path(record.compaction))
            why = why or "another table service was requested"
            raise PlanOutdated(f"{self._storage.url}: compaction withdrawn: {why} without the table's lock")

    def _refusal(self, timeline: Timeline, proposal: Proposal) -> str | None:
        """Why the plan may no longer be requested, in words; None if it may."""
        known, compaction = proposal.record.known, proposal.record.compaction
        if services_of(timeline) != proposal.seen:
            return "another table service, rollback or restore came between"
        for instant in timeline.completed_commits:
            if instant.request_time not in known and (instant.completion_time or "") <= compaction:
                return f"instant {instant.request_time} completed before it"
        completed = {instant.request_time for instant in timeline.completed_commits}
        if gone := {time for time in known - completed if not timeline.is_archived(time)}:
            return f"instant {max(gone)} is no longer on the timeline"
        if compaction in timeline.times:
            return "its time is taken"
        if started := open_at(compaction, timeline, claimed(self._storage)):
            return f"instant {started[0]} was open at its time"
        return undecided(self._storage, timeline)

    def open_compaction(self) -> str | None:
        """Request time of our compaction that has not ended; None if there is none. Raises NewerFormat."""
        number = self._open_number()
        if number is None:
            return None
        record = self._journal.plan(number)
        return "" if record is None else record.compaction

    def advance(self, found: Ready | Swept | None = None, *, lists: bool = True) -> Work | Ended | None:
        """Take every step of the open compaction up to the next one that takes long.

        `found`: the result of the last work. `lists`: partitions may be listed here; else that is work as well.
        Work: it must be done first. Ended: it has just ended. None: there is none, or another writer is at it.
        Raises NewerFormat, what reading a table raises, and as the lease's check does.
        """
        ready = found if isinstance(found, Ready) else None
        number = self._open_number()
        if number is None:
            return None
        record = self._journal.plan(number)
        if record is None:  # a plan is the first object; without it, it was being deleted
            self._journal.mark_done(number, End.VOID)
            return None
        for _ in range(_STEPS_MAX):
            self._check_lease()
            facts = read_facts(self._storage, number, record, self._clock(), ready)
            choice = decide(facts)
            if choice.step is Step.EXECUTE:
                self._prepare(record.compaction)
                return Work(record.compaction, number, facts.round_number)
            if choice.step in (Step.NOTHING, Step.WAIT):
                return None
            if choice.step is Step.LOOK:
                if facts.state is State.REQUESTED:  # rolled back once
                    self._prepare(record.compaction)
                if not lists:
                    return Work(record.compaction, number, facts.round_number, Task.LOOK)
                ready = ready_commit(self._storage, self._journal, number, facts.round_number)
                continue
            if choice.step is Step.END:
                take_off_late(self._storage, record, choice.end or End.VOID, self._lock, self._clock())
                swept = found if isinstance(found, Swept) and found.number == number else None
                if swept is None and not lists:
                    return Work(record.compaction, number, facts.round_number, Task.SWEEP)
                return self._end(number, record, choice, swept or sweep(self._storage, self._journal, number))
            log.info("compaction", extra={"compaction": record.compaction, "step": choice.step, "why": choice.reason})
            self._take(choice, number, record, facts, ready)
            if choice.step in (Step.COMMIT, Step.COMPLETE):
                ready = None  # of before
        log.error("compaction does not finish", extra={"compaction": record.compaction})
        return None

    def _take(self, choice: Choice, number: int, record: PlanRecord, facts: Facts, ready: Ready | None) -> None:
        match choice.step:
            case Step.START | Step.VOID:
                self._journal.put_go(number, start=choice.step is Step.START)
            case Step.FINISH_ROLLBACK:
                self._finish_rollbacks(record.compaction)
            case Step.OPEN_ROUND:
                self._open_round(number, record, facts, self._next_round(facts, choice.reason))
            case Step.COMMIT | Step.COMPLETE:
                assert ready is not None, "the files were looked at"
                self._commit(number, record, ready)
            case Step.UNDO:
                self._take_away(record.compaction, facts)

    def _prepare(self, compaction: str) -> None:
        """Sign of life and inflight file, before the first base file."""
        heartbeat.beat(self._storage, compaction, HEARTBEAT)
        create_inflight(self._storage, compaction, COMPACTION)

    @staticmethod
    def _next_round(facts: Facts, why: str, added: Mapping[Group, tuple[str, ...]] = MappingProxyType({})) -> Round:
        """What earlier rounds added and left out stays so."""
        before = facts.opened or Round(why)
        left_out = before.left_out | facts.lost
        return Round(why, facts.rollbacks, {**before.added, **added}, MERGE_VERSION, left_out)

    def _open_round(self, number: int, record: PlanRecord, facts: Facts, opened: Round) -> None:
        if facts.round_number and facts.decided is None:
            closed = self._journal.decide(number, AbortDecision(opened.why), facts.round_number)
            if isinstance(closed, CommitDecision):
                return  # another holder decided it: look again
        self._prepare(record.compaction)
        self._journal.open_round(number, facts.round_number + 1, opened)

    def _commit(self, number: int, record: PlanRecord, ready: Ready) -> None:
        """Decide the round unless it is decided, and carry the decision out, if nothing came between."""
        self._failed = ready.failed
        with self._lock():
            self._check_unchanged(self._storage)
            facts = read_facts(self._storage, number, record, self._clock(), ready)
            if decide(facts).step not in (Step.COMMIT, Step.COMPLETE):
                return  # something came between: look again
            decided = facts.decided or self._decide(number, record, facts, ready)
            if not isinstance(decided, CommitDecision):
                return
            self._check_lease()
            complete(self._storage, record.compaction, decided.completion_time, decided.content, COMMIT)
        keep_one(self._storage, record.compaction, self._lock)  # nothing prevents two without a common lock
        self._check_unchanged(self._storage)

    def _decide(self, number: int, record: PlanRecord, facts: Facts, ready: Ready) -> Decision | None:
        """Decide the commit; None if log files that must be merged too were found: then the next round does."""
        requested = self._storage.get(requested_path(record.compaction))
        if requested != record.content:
            raise InvalidTable(
                f"{self._storage.url}/{requested_path(record.compaction)} is not the plan that was requested: another "
                "writer replaced it; roll the compaction back with Hudi"
            )
        timeline = Timeline.load(self._storage)
        late, with_columns = late_logs(self._storage, timeline, record, ready)
        if late:
            why = "log files completed before it that its plan does not have"
            log.warning(why, extra={"compaction": record.compaction, "file_groups": len(late)})
            added = {group: (*ready.added.get(group, ()), *names) for group, names in late.items()}
            following = self._next_round(facts, why, added)
            following = replace(following, left_out=following.left_out | with_columns)
            self._open_round(number, record, facts, following)
            return None
        wanted = wanted_decision(self._storage, timeline, ready, record.compaction, self._clock())
        self._check_lease()  # last: nothing slow happens between this and the decision
        return self._journal.decide(number, wanted, facts.round_number)

    def _finish_rollbacks(self, compaction: str) -> None:
        timeline = Timeline.load(self._storage)
        for rollback in pending_rollbacks(self._storage, timeline, compaction):
            if rollback.plan is not None:
                finish_compaction_rollback(
                    self._storage, rollback.rollback_time, rollback.plan, self._lock, self._clock
                )

    def _take_away(self, compaction: str, facts: Facts) -> None:
        """Take a completed file off the timeline whose base files are gone, or will be."""
        with self._lock():
            found = Timeline.load(self._storage).find(compaction, COMMIT)
            if found is not None and found.completion_time == facts.completion_time and found.is_completed:
                self._storage.delete(path_of(found))
                log.error("compaction taken off the timeline: another writer rolls it back", extra={"at": compaction})

    def _end(self, number: int, record: PlanRecord, choice: Choice, swept: Swept) -> Ended:
        end = self._journal.mark_done(number, choice.end or End.VOID)
        ended = Ended(record.compaction, end, swept.file_groups, swept.rows, self._failed)
        self._failed = {}
        extra = {"compaction": ended.compaction, "end": end, "why": choice.reason, "file_groups": ended.file_groups}
        log.info("compaction ended", extra={**extra, "rows": ended.rows})
        return ended

    def sweep_old(self) -> None:
        """Now and then: delete what a paused process wrote late, and objects that nobody needs any more."""
        now, ended = self._clock(), {}
        old = set(self._journal.expired(now))
        for number in self._journal.numbers():
            record, end = self._journal.plan(number), self._journal.done(number)
            if record is None:  # a process died while it deleted the objects, or only directories are left
                self._check_lease()
                self._journal.forget(number)
            elif end is not None:
                partitions = frozenset(partition_path for partition_path, _ in record.groups())
                ended[number] = EndedCompaction(record.compaction, end, partitions)
        for number in sorted(left_over(self._storage, self._journal, ended) | (old & ended.keys())):
            self._check_lease()
            if (record := self._journal.plan(number)) is not None:
                take_off_late(self._storage, record, ended[number].end, self._lock, now)
            sweep(self._storage, self._journal, number)
            if number in old and not self._is_pending(ended[number].compaction):
                self._journal.forget(number)

    def _is_pending(self, compaction: str) -> bool:
        found = Timeline.load(self._storage).find(compaction, COMPACTION)
        return found is not None and not found.is_completed
