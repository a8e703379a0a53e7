"""What other writers took from a pipeline: completed instants that they rolled back, left out of a compaction, or swept
away with a whole partition. Each is marked as overtaken, so that its rows come again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from bucketingest.hudi.history.archived import (
    LOOKS_BACK,
    OPEN_FOR,
    ArchivedService,
    archived_commits,
    archived_completion_times,
    archived_services,
    is_archived,
)
from bucketingest.hudi.plans.clean_plan import CleanPlan
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.plans.replaced import decoded_slices
from bucketingest.hudi.rollback.plan import rolled_back_instants
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, REPLACE_COMMIT, ROLLBACK, Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.overtaking import (
    Committed,
    Merge,
    left_out,
    merges_of,
    plans_of_cleans,
    swept_away,
)
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


def archived_unseen(storage: Storage, journal: Journal, look: str = "") -> Iterator[list[ArchivedService]]:
    """What other writers archived since the pipeline's newest instant completed, and since `look`: a time at which the
    timeline was looked at for an idle pipeline.
    """
    instants = journal.instants()
    newest = next(filter(None, map(journal.completion_time, reversed(instants))), None)
    return iter(()) if newest is None else archived_services(storage, instants[0], max(newest, look))


def look(
    storage: Storage,
    journal: Journal,
    timeline: Timeline,
    looked: set[str],
    *,
    named: Collection[str],
    archived: Iterable[Sequence[ArchivedService]],
    cleans: Collection[Instant] = (),
) -> set[str]:
    """Mark what other writers took from the pipeline since the last look; returns its instants that are marked by it.

    `looked`: names (see `_name`) of the compactions and cleans that were looked at before; becomes those that the next
    look has to know. `named`: those that rollbacks on the timeline name. `archived`: what was archived since, so that
    nobody could look at it on the timeline. `cleans`: on the timeline.
    """
    gone = mark_rolled_back(storage, journal, timeline, named)
    unseen = [each for each in cleans if _name(each) not in looked]
    new = timeline.compactions - looked
    replaced = [each for each in timeline.replacements if each.request_time not in looked]
    merges = merges_of(storage, new, replaced)
    gone |= _audit(storage, journal, timeline, merges, plans_of_cleans(storage, unseen))
    new |= {each.request_time for each in merges}
    seen = {*looked, *new, *map(_name, unseen), *(each.request_time for each in replaced)}
    for services in archived:
        found = [each for each in services if _name(each.instant) not in seen]
        rollbacks = (each.metadata for each in found if each.instant.action == ROLLBACK)
        named = {time for content in rollbacks for time in rolled_back_instants(content, "history: a rollback")}
        gone |= mark_rolled_back(storage, journal, timeline, named)
        merges, old_cleans = _plans(found)
        gone |= _audit(storage, journal, timeline, merges, old_cleans, are_archived=True)
        new |= {each.request_time for each in merges}
        seen |= {*new, *map(_name, old_cleans)}
    newest = max((each.partition("_")[0] for each in seen), default="")
    oldest = format_time(parse_time(newest) - LOOKS_BACK) if newest else ""
    on_timeline = timeline.compactions | {_name(each) for each in (*cleans, *timeline.replacements)}
    kept = {time for time in seen if time >= oldest or time in on_timeline}
    journal.mark_audited(new & kept, looked - kept)
    looked.clear()
    looked.update(kept)
    return gone


def _name(service: Instant) -> str:
    """A clean with its completion time: one that was paused may complete, and delete, after another process has
    completed it. Else the request time.
    """
    done = service.completion_time if service.action == CLEAN else None
    return f"{service.request_time}_{done}" if done else service.request_time


def _plans(services: Iterable[ArchivedService]) -> tuple[list[Merge], dict[Instant, CleanPlan]]:
    """What compactions and clusterings merge, and the plans of cleans of whole partitions."""
    merges: list[Merge | None] = []
    cleans = {}
    for each in services:
        instant, where = each.instant, f"history: plan of {each.instant.request_time}"
        if each.plan and instant.action == CLEAN:
            cleans[instant] = CleanPlan.decode(each.plan, where)
        elif instant.action == REPLACE_COMMIT:
            merges.append(Merge.of_clustering(instant, decoded_slices(each.plan, where)))
        elif each.plan and instant.action != ROLLBACK:
            merges.append(Merge.of_compaction(instant.request_time, CompactionPlan.decode(each.plan, where)))
    return list(filter(None, merges)), {clean: plan for clean, plan in cleans.items() if plan.partitions}


def _audit(
    storage: Storage,
    journal: Journal,
    timeline: Timeline,
    merges: Collection[Merge],
    cleans: Mapping[Instant, CleanPlan],
    *,
    are_archived: bool = False,
) -> set[str]:
    """The pipeline's instants that one of these table services leaves out, or one of the cleans deletes, now marked as
    overtaken.
    """
    if not merges and not cleans:
        return set()
    active = {instant.request_time: instant for instant in timeline.completed_commits}
    remembered = {each.request_time: each for each in journal.archived(active)}
    forgotten = _forgotten(storage, journal.pipeline, merges, cleans if are_archived else (), {*active, *remembered})
    instants = [
        *(Committed.of(storage, instant) for instant in active.values()),
        *remembered.values(),
        *forgotten.values(),
    ]
    overtaken = set()
    lost = (*left_out(merges, instants), *swept_away(storage, timeline, cleans, instants))
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
                "rows are lost, and ingested again: a table service left them out, or a clean deleted them", extra=extra
            )
        else:
            log.error(
                "rows of another writer are lost: a table service left them out, or a clean deleted them", extra=extra
            )
    return overtaken


def _forgotten(
    storage: Storage,
    pipeline: str,
    merges: Collection[Merge],
    cleans: Collection[Instant],
    known: Collection[str],
) -> dict[str, Committed]:
    """By request time, the pipeline's archived instants that one of the plans may leave out, or one of the archived
    cleans delete, and that are not `known`.

    Reads the history only if a planner saw nothing that is known: else what it did not see is known, too.
    """
    newest_seen = {merge.before: max(merge.seen, default="") for merge in merges}
    unknown = {before: seen for before, seen in newest_seen.items() if seen and seen not in known}
    if not unknown and not cleans:
        return {}
    first = min([*unknown.values(), *(each.request_time for each in cleans)])
    last = max([*unknown, *(each.completion_time or "" for each in cleans)])
    contents = {
        time: content
        for time, content in archived_commits(storage, format_time(parse_time(first) - OPEN_FOR), last=last)
        if time not in known and CommitMetadata.decode_extra(content, time).get(PIPELINE) == pipeline
    }
    times = archived_completion_times(storage, contents)
    return {
        time: Committed(time, times[time], partial(CommitMetadata.decode_files, contents[time], time)) for time in times
    }
