"""Pipelines that have written nothing for long, or never will: a renamed one must not keep the timeline long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from bucketingest.hudi.timeline.instant import Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.facts import newest_positions
from bucketingest.storage import Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import read_position
from bucketingest.write.instants.shared_table import archived_unseen, audit, mark_rolled_back


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
        mark_rolled_back(storage, journal, timeline, rolled_back)
        audit(storage, journal, timeline, journal.audited(), archived_unseen(storage, journal))


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
