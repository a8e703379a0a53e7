"""Keeps a table small: deletes files that no reader needs any more, and takes old instants off the active timeline.

A pipeline that has written nothing for long, or never will, as a renamed one, must not keep the timeline long: its
position is kept beside the timeline.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.damage.look import damage_of_table
from bucketingest.hudi.history.archived import archived_completion_times, hidden_writes
from bucketingest.hudi.history.manifest import load_manifest
from bucketingest.hudi.history.writer import settle
from bucketingest.hudi.plans.clean_plan import read_clean_plan
from bucketingest.hudi.rollback.plan import rolled_back_instants
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.timeline.instant import CLEAN, ROLLBACK, Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.overtaking import completed_cleans
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.archive.choose import ArchiveChoice, ArchiveRules, Held, choose, old_writes
from bucketingest.services.archive.execute import ArchiveResult, archive, put_back
from bucketingest.services.archive.facts import newest_positions, read_facts
from bucketingest.services.archive.horizon import read_horizon
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.execute import CleanDecisions, Cleaned, clean_table
from bucketingest.services.clean.facts import load_clean_facts
from bucketingest.services.clustering.records import RESULT, ClusteringJournal
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import read_position
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.instants.taken_out import (
    archived_unseen,
    look,
    overtaken,
)
from bucketingest.write.pipeline_names import pipelines

log = logging.getLogger(__name__)

_RUNS_MAX = 300
"""Archivals at once: each moves some instants, and holds the lock meanwhile."""
_VOID: Final = frozenset({"aborted", "overtaken"})
"""Objects of an instant whose rows do not count as in the table."""
_ONLY_WHAT_HIDES: Final = ArchiveRules(keep_min=sys.maxsize)


def clean(table: Guarded, retention: Retention) -> Cleaned:
    """Finish pending cleans, then delete what the retention does not keep. May be repeated after a failure.

    Raises CleanRefused, UnsupportedTable for a table with Hudi's metadata table, and what `clean_table` raises.
    """
    refuse_changed_table(table.storage)
    remove_put_back(table)
    cleaned = clean_table(table, retention)
    decisions = CleanDecisions(table.storage)
    for number in decisions.expired(table.clock()):
        decisions.forget(number)
    for result in cleaned.results:
        log.info("cleaned", extra={"clean": result.request_time, "files": result.files})
    return cleaned


def remove_put_back(table: Guarded) -> None:
    """Undo what a paused process did after an archival: first the number of an old manifest, by which all archived
    since would be missing from the history; then what it put back onto the timeline. First of all: a compaction that is
    inflight again, without its plan, keeps everything else from its work.
    """
    storage = table.storage
    manifest = load_manifest(storage)
    if manifest.number > manifest.published:
        with table.lock():
            table.check()
            settle(storage, table.check)
    timeline = Timeline.load(storage)
    hidden = max(hidden_writes(storage, timeline), default="")
    if horizon := max(read_horizon(storage), hidden):
        put_back(storage, timeline, horizon)
    if hidden:
        _archive(table, _ONLY_WHAT_HIDES)


def archive_old(
    table: Guarded,
    rules: ArchiveRules | None = None,
    damaged: Collection[Damaged] | None = None,
    *,
    retained: str = "",
) -> list[ArchiveResult]:
    """Take every instant off the active timeline that is old enough and that nothing keeps there.

    `damaged`: files of the table that are; None: it is looked. Their commits stay: only they say what is missing.
    `retained`: of the `Choice` of a clean that came just before.
    Raises UnsupportedTable for a table with Hudi's metadata table, and what `archive` raises.
    """
    refuse_changed_table(table.storage)
    remove_put_back(table)
    rules = rules or ArchiveRules()
    damaged = damage_of_table(table.storage, overtaken) if damaged is None else damaged
    _look_for_all(table)
    results: list[ArchiveResult] = []
    while len(results) < _RUNS_MAX:
        results.append(_archive(table, rules, damaged, retained))
        if not results[-1].instants:
            break
    return results


def _look_for_all(table: Guarded) -> None:
    """Before the archive: what nobody has looked at for a pipeline stays on the timeline."""
    timeline = Timeline.load(table.storage)
    rolled_back = rollback_targets(table.storage, timeline)
    for pipeline in (name for name in pipelines(table.storage) if name != table.running):
        table.check()
        look_for(table.storage, timeline, pipeline, rolled_back)


def _archive(
    table: Guarded, rules: ArchiveRules, damaged: Collection[Damaged] = (), retained: str = ""
) -> ArchiveResult:
    held = replace(held_back(table.storage, table.clock(), damaged), retired=_retired(table, rules))
    if held.earliest_to_retain is not None:
        held = replace(held, earliest_to_retain=max(held.earliest_to_retain, retained))
    return archive(table, held, rules)


def archive_plan(table: Guarded, rules: ArchiveRules | None = None, damaged: Collection[Damaged] = ()) -> ArchiveChoice:
    """What the next archival would take off the timeline, and what keeps others there. Changes nothing."""
    rules, timeline, now = rules or ArchiveRules(), Timeline.load(table.storage), table.clock()
    held = replace(held_back(table.storage, now, damaged), retired=_retired(table, rules, dry_run=True))
    facts = read_facts(
        table.storage, timeline, old_writes(timeline, rules, now, held)[: rules.instants_max], held.retired
    )
    return choose(timeline, facts, held, rules, now)


def _retired(table: Guarded, rules: ArchiveRules, *, dry_run: bool = False) -> frozenset[str]:
    """The idle pipelines whose instants may go: their position is kept beside the timeline."""
    timeline = Timeline.load(table.storage)
    old = old_writes(timeline, rules, table.clock(), Held())[: rules.instants_max]
    try:
        idle = idle_pipelines(table.storage, timeline, old) if old else {}
    except NotFound:  # another writer archives
        return frozenset()
    check = None if dry_run else table.check
    return frozenset(name for name, instant in idle.items() if retire(table.storage, timeline, name, instant, check))


def held_back(storage: Storage, now: datetime, damaged: Collection[Damaged] = ()) -> Held:
    """What must stay on the timeline beyond what timeline and files show: unfinished work of the pipelines, and commits
    that name damaged files.
    """
    timeline, facts = load_clean_facts(storage)
    rollbacks = {
        instant.request_time: rolled_back_instants(storage.get(path_of(instant)), path_of(instant))
        for instant in timeline.completed
        if instant.action == ROLLBACK
    }
    kept = dict(_merging(storage, timeline, now))
    aborted: set[str] = set()
    for pipeline in pipelines(storage):
        journal = Journal(storage, pipeline)
        kept |= dict(_kept(journal, timeline, rollbacks, now))
        aborted.update(journal.aborted())
    named = {time for targets in rollbacks.values() for time in targets}
    aborted |= named - archived_completion_times(storage, named).keys()
    aborted -= {instant.request_time for instant in timeline.instants}
    kept |= {each.file.instant: f"its data file {each.file.path} is damaged" for each in damaged}
    hidden = max(hidden_writes(storage, timeline), default="")
    lately = completed_cleans(timeline, format_time(now - KEPT_FOR))
    plans = ((each.request_time, read_clean_plan(storage, each.request_time)) for each in lately)
    cleans = [each.request_time for each in timeline.completed if each.action == CLEAN]
    # The last one says from where on slices are retained: without it nothing would keep what they need.
    looked_at = frozenset((*cleans[-1:], *(time for time, plan in plans if plan is not None and plan.partitions)))
    return Held(facts.last_earliest or None, kept, aborted=aborted, looked_at=looked_at, hidden=hidden)


def _kept(
    journal: Journal, timeline: Timeline, rollbacks: dict[str, tuple[str, ...]], now: datetime
) -> Iterator[tuple[str, str]]:
    times = journal.times_by_instant()
    objects_by_instant = {instant: frozenset(names) for instant, names in times.items()}
    missing = journal.missing(objects_by_instant)
    for instant, objects in objects_by_instant.items():
        if "done" not in objects:
            yield instant, f"{journal.pipeline} has not finished it"
        elif "aborted" in objects:
            # Else nothing of it comes any more. It may have been open for days before.
            if now - max(parse_time(instant), times[instant]["done"]) <= KEPT_FOR:
                yield instant, f"{journal.pipeline} aborted it lately: a file of it may still come"
        elif instant in missing:
            yield instant, f"its rows are ingested again by {journal.pipeline}"
    for rollback, named in rollbacks.items():
        unmarked = [time for time in named if not _VOID & objects_by_instant.get(time, _VOID)]
        if unmarked:
            yield rollback, f"{journal.pipeline} has not seen that it rolls {unmarked[0]} back"
    if objects_by_instant:
        for compaction in timeline.compactions - journal.audited():
            yield compaction, f"{journal.pipeline} has not checked its plan"


def _merging(storage: Storage, timeline: Timeline, now: datetime) -> Iterator[tuple[str, str]]:
    """Clusterings whose base files, or whose commits, may still come: their instants must not count as archived, and
    their names must be taken. And the oldest one whose old groups may still get a file: readers leave these groups out
    only while the instant is on the timeline, and after a clean the names of their files are free.
    """
    journal, found = ClusteringJournal(storage), False
    for number, created_at in journal.objects().items():
        ended = created_at.get("done")
        if ended is not None and now - ended > KEPT_FOR:  # nothing of it comes any more
            continue
        made = ended is not None and RESULT in created_at
        closed = made and journal.done(number) is not End.COMPLETED
        if (closed and not isinstance(journal.decision(number), CommitDecision)) or (made and found and not closed):
            continue
        plan = journal.plan(number)
        if plan is None:
            continue
        if ended is None:
            yield plan.instant, "its clustering has not ended"
        elif not made:
            yield plan.instant, "a process that merged file groups for it may still put one"
        elif closed:
            yield plan.instant, "what completes its clustering as it was decided may be on its way, and cannot come"
        elif plan.instant >= (timeline.first_active or ""):
            found = True
            yield plan.instant, "a file that is on its way may still come into a file group that it replaced"


def idle_pipelines(storage: Storage, timeline: Timeline, old: Sequence[Instant]) -> dict[str, str]:
    """The pipelines whose newest position is in one of the old writes, and its request time. Opens their files."""
    positions = newest_positions(storage, timeline, old, ())
    return {pipeline: time for pipeline, time in positions.items() if time <= old[-1].request_time}


def look_for(storage: Storage, timeline: Timeline, pipeline: str, rolled_back: Collection[str]) -> None:
    """Look at compactions and rollbacks on behalf of a pipeline that may never do so again: what they took from it is
    marked in its journal, where its next start finds it. The caller holds the table. `rolled_back`: request times that
    the timeline's rollbacks name.
    """
    journal = Journal(storage, pipeline)
    if journal.instants():
        looked = journal.audited()
        # The newest was marked at such a look. What came before is not read again: else each costs more than the last.
        archived = archived_unseen(storage, journal, max(looked, default=""))
        look(storage, journal, timeline, looked, named=rolled_back, archived=archived)


def retire(storage: Storage, timeline: Timeline, pipeline: str, instant: str, check: Callable[[], None] | None) -> bool:
    """Keep the position of an idle pipeline beside the timeline; whether the archival may then forget its instants.

    Not if something is to be done for the pipeline: an instant that is not finished, or rows that it ingests again.
    `check` raises if the caller lost the table; None: nothing is written.
    """
    journal = Journal(storage, pipeline)
    if any("done" not in objects for objects in journal.objects_by_instant().values()):
        return False
    kept = journal.kept_position()
    if kept is not None and kept[0] == instant:
        return True
    position = read_position(storage, timeline, journal)
    if position.lost or position.end is None:
        return False
    if check is not None:
        check()
        journal.keep_position(instant, position.end)
    return True
