"""What must still be true before a clean deletes: its plan may be hours old, and another writer's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bucketingest.hudi.naming import join
from bucketingest.hudi.plans.clean_plan import CleanPlan, files_of_savepoint
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.plans.replaced import replacements
from bucketingest.hudi.rollback.pending import pending_rollbacks
from bucketingest.hudi.table.file_view import FileGroup, FileView, load_file_view
from bucketingest.hudi.timeline.instant import COMPACTION, LOG_COMPACTION, RESTORE, SAVEPOINT, Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.errors import CleanRefused
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage


class Guard:
    """Looks at the table before a plan is requested, and before each batch of deletions."""

    def __init__(self, storage: Storage, plan: CleanPlan, name: str) -> None:
        """Lists the plan's partitions: make one whenever a plan is requested, started or resumed. `name`: of the clean.

        Raises CleanRefused if a file is not one that a completed instant superseded.
        """
        self._storage = storage
        self._plan = plan
        self._name = name
        self._files = frozenset(plan.paths)
        timeline = Timeline.load(storage)
        view = load_file_view(storage, timeline, sorted(plan.files))
        try:
            self._superseders = superseders(view, replacements(storage, timeline), self._files)
        except CleanRefused as error:
            raise self._refused(str(error)) from None
        self._restores = _restores(timeline)
        self._savepoints: dict[str, frozenset[str]] = {}
        self._inputs: dict[str, frozenset[str]] = {}

    def check(self) -> None:
        """Raise CleanRefused if the files may be needed: since the plan was made or started, a superseding instant was
        rolled back, or a savepoint, a restore or a compaction that reads them came.
        """
        timeline = Timeline.load(self._storage)
        for reason in self._reasons(timeline):
            raise self._refused(reason)

    def _reasons(self, timeline: Timeline) -> Iterator[str]:
        for superseder in sorted(self._superseders):
            if not timeline.is_committed(superseder):
                yield f"{superseder}, which superseded files of its plan, is no longer completed"
        for rollback in pending_rollbacks(self._storage, timeline):
            if rollback.target in self._superseders:
                yield f"{rollback.target}, which superseded files of its plan, is being rolled back"
        for instant in timeline.instants:
            if instant.action == SAVEPOINT:
                yield from self._of_savepoint(instant)
        for instant in timeline.pending:
            if instant.action in (COMPACTION, LOG_COMPACTION) and (read := self._read_by(instant) & self._files):
                yield f"pending {instant.action} {instant.request_time} reads {min(read)} of its plan"
        pending = [each.request_time for each in timeline.pending if each.action == RESTORE]
        for restore in sorted(_restores(timeline) - self._restores | set(pending)):
            yield f"restore {restore} takes the table back to an earlier moment"

    def _read_by(self, compaction: Instant) -> frozenset[str]:
        """Files that a pending compaction merges; a scheduler without a lock may plan from an old look at the table."""
        time = compaction.request_time
        if time not in self._inputs:
            plan = read_compaction_plan(self._storage, time, compaction.action)
            self._inputs[time] = frozenset(
                join(operation.partition_path, name)
                for operation in (() if plan is None else plan.operations)
                for name in (operation.base_file, *operation.log_files)
                if name is not None
            )
        return self._inputs[time]

    def _of_savepoint(self, savepoint: Instant) -> Iterator[str]:
        time = savepoint.request_time
        if not savepoint.is_completed:
            earliest = self._plan.earliest
            if time not in self._plan.savepoints and (earliest is None or time < earliest.request_time):
                yield f"savepoint {time} is pending: its files are not known yet"
            return
        if time not in self._savepoints:
            try:
                self._savepoints[time] = files_of_savepoint(self._storage, savepoint)
            except NotFound:  # deleted since the timeline was loaded
                return
        kept = self._savepoints[time] & self._files
        if kept:
            yield f"savepoint {time} keeps {min(kept)} of its plan"

    def _refused(self, reason: str) -> CleanRefused:
        return CleanRefused(f"{self._storage.url}: {self._name} is not carried out now: {reason}")


def superseders(view: FileView, replaced: Mapping[tuple[str, str], Instant], files: frozenset[str]) -> frozenset[str]:
    """Request times of the completed instants on which it depends that nobody needs these files, as far as they are
    still there. Pure.

    Raises CleanRefused for a file of a group's newest slice, or of an instant that is not completed.
    """
    return frozenset(time for group in view.groups for time in _of_group(group, replaced, files))


def _of_group(group: FileGroup, replaced: Mapping[tuple[str, str], Instant], files: frozenset[str]) -> Iterator[str]:
    for file in group.uncommitted:
        if file.path in files:
            raise CleanRefused(f"instant {file.instant} of {file.path} is not completed")
    replacement = replaced.get((group.partition_path, group.file_id))
    for position, file_slice in enumerate(group.slices):
        paths = [file.path for file in (*file_slice.log_files, file_slice.base_file) if file is not None]
        if files.isdisjoint(paths):
            continue
        if replacement is not None:
            yield replacement.request_time
        elif position + 1 < len(group.slices):
            yield group.slices[position + 1].base_instant
        else:
            raise CleanRefused(f"a file of the newest slice of {group.partition_path}/{group.file_id} is in its plan")


def _restores(timeline: Timeline) -> frozenset[str]:
    return frozenset(instant.request_time for instant in timeline.instants if instant.action == RESTORE)
