"""What other writers took from a pipeline: completed instants that they rolled back, left out of a compaction, or swept
away with a whole partition. Each is marked as overtaken, so that its rows come again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from bucketingest.hudi.history.archived import (
    OPEN_FOR,
    archived_commits,
    archived_compactions,
    archived_completion_times,
    archived_rollbacks,
    is_archived,
)
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.rollback.plan import rolled_back_instants
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.overtaking import Committed, left_out, plans_of, seen_by, swept_away
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.instants.commit_content import is_of_pipeline
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import lost_in_archive, not_come_again
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.pipeline_names import PIPELINE, pipelines

log = logging.getLogger(__name__)


def mark_rolled_back(storage: Storage, journal: Journal, timeline: Timeline, named: Collection[str]) -> set[str]:
    """The pipeline's completed instants among those that rollbacks name, now marked as overtaken: whoever finishes such
    a rollback deletes their files. The mark also says, once they are archived, whether their rows have come again.
    """
    decisions = {time: journal.decision(time) for time in sorted(named)}
    found = lost_in_archive(storage, timeline, journal.pipeline, [t for t, each in decisions.items() if each is None])
    for time, decision in decisions.items():
        if isinstance(decision, CommitDecision) and (
            timeline.completion_time(time) or (timeline.is_archived(time) and is_archived(storage, time))
        ):
            found.add(time)
    marked = {time for time in found if not journal.is_overtaken(time)}
    for time in sorted(marked):
        journal.mark_overtaken(time, "another writer rolled it back after it was complete")
        log.error("rollback of a completed instant", extra={"instant": time})
    return marked


def overtaken(storage: Storage) -> set[str]:
    """Request times of all pipelines' instants that are marked: what they lack comes again in others, or has."""
    journals = (Journal(storage, pipeline).objects_by_instant() for pipeline in pipelines(storage))
    return {time for each in journals for time, objects in each.items() if "overtaken" in objects}


def archived_unseen(storage: Storage, journal: Journal, look: str = "") -> set[str]:
    """Archived compactions that completed after the pipeline's newest instant, and after `look`: a time at which the
    timeline was looked at for an idle pipeline.
    """
    first, newest = _last_look(journal)
    return set() if newest is None else archived_compactions(storage, first, max(newest, look)) - journal.audited()


def rolled_back_unseen(storage: Storage, journal: Journal, look: str = "") -> set[str]:
    """Request times that archived rollbacks name which completed after the pipeline's newest instant, and `look`."""
    first, newest = _last_look(journal)
    return set() if newest is None else named_by(archived_rollbacks(storage, first, max(newest, look)))


def named_by(rollbacks: Iterable[bytes]) -> set[str]:
    """Request times that archived rollbacks name. `rollbacks`: their contents."""
    return {time for content in rollbacks for time in rolled_back_instants(content, "history: a rollback")}


def _last_look(journal: Journal) -> tuple[str, str | None]:
    """The oldest instant that the pipeline's journal has, and when its newest one completed: then it looked at the
    timeline for the last time.
    """
    instants = journal.instants()
    return (instants or [""])[0], next(filter(None, map(journal.completion_time, reversed(instants))), None)


def audit(
    storage: Storage,
    journal: Journal,
    timeline: Timeline,
    audited: Collection[str],
    archived: Collection[str] = (),
    *,
    cleans: Collection[Instant] = (),
) -> set[str]:
    """Check each compaction that is not audited, archived ones that nobody could look at while they were on the
    timeline, and these cleans; returns the pipeline's instants that one leaves out or deletes, marked as overtaken.
    """
    new = (timeline.compactions - set(audited)) | set(archived)
    if not new and not cleans:
        return set()
    active = {instant.request_time: instant for instant in timeline.completed_commits}
    plans = plans_of(storage, new)
    remembered = {each.request_time: each for each in journal.archived(active)}
    forgotten = _forgotten(storage, journal.pipeline, plans, {*active, *remembered})
    instants = [*(Committed.of(storage, instant) for instant in active.values()), *remembered.values()]
    overtaken = set()
    lost = (*left_out(plans, [*instants, *forgotten.values()]), *swept_away(storage, timeline, cleans, instants))
    came_again = forgotten.keys() & {instant.request_time for instant, _ in lost}
    came_again -= not_come_again(storage, timeline, journal.pipeline, came_again)
    for instant, by in lost:
        if instant.request_time in came_again:
            continue
        time, extra = instant.request_time, {"instant": instant.request_time, "by": by}
        if journal.is_overtaken(time):
            if journal.why_overtaken(time) == by:  # found on behalf of this pipeline while it was idle
                overtaken.add(time)
            continue
        if time not in active or is_of_pipeline(storage, active[time], journal.pipeline):
            journal.mark_overtaken(time, by)
            overtaken.add(time)
            log.error(
                "rows are lost, and ingested again: a compaction left them out, or a clean deleted them", extra=extra
            )
        else:
            log.error(
                "rows of another writer are lost: a compaction left them out, or a clean deleted them", extra=extra
            )
    journal.mark_audited(new & timeline.compactions, set(audited) - timeline.compactions)
    return overtaken


def _forgotten(
    storage: Storage, pipeline: str, plans: Mapping[str, CompactionPlan], known: Collection[str]
) -> dict[str, Committed]:
    """By request time, the pipeline's archived instants that one of the plans may leave out and that are not `known`.

    Reads the history only if a planner saw nothing that is known: else what it did not see is known, too.
    """
    newest_seen = (max(seen_by(plan), default="") for plan in plans.values())
    first = min((seen for seen in newest_seen if seen and seen not in known), default=None)
    if first is None:
        return {}
    since = format_time(parse_time(first) - OPEN_FOR)
    contents = {
        time: content
        for time, content in archived_commits(storage, since)
        if time not in known and CommitMetadata.decode_extra(content, time).get(PIPELINE) == pipeline
    }
    times = archived_completion_times(storage, contents)
    return {
        time: Committed(time, times[time], partial(CommitMetadata.decode_files, contents[time], time)) for time in times
    }
