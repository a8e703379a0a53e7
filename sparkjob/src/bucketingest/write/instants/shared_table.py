"""The table as this attempt knows it, while other writers work on it: their file groups and columns are read, and what
they roll back or leave out of a compaction is detected.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.history.archived import (
    ArchivedService,
    archived_completion_times,
    archived_services,
    archived_times,
)
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.table.schema import AvroSchema
from bucketingest.hudi.table.schema_evolution import Fit, compare_schemas, joined
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    COMMIT,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    RESTORE,
    ROLLBACK,
    Instant,
)
from bucketingest.hudi.timeline.overtaking import completed_cleans
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.write.errors import ColumnsChanged, PositionLost
from bucketingest.write.instants.commit_content import is_of_pipeline
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.taken_out import archived_unseen, look
from bucketingest.write.open_table import OpenTable, fixed_columns
from bucketingest.write.table_groups import TableGroups


class SharedTable:
    """File groups, partitions and columns of the completed instants, and which instants those were."""

    def __init__(
        self, opened: OpenTable, journal: Journal, groups: TableGroups, own_rollbacks: Collection[str]
    ) -> None:
        """`groups`: takes over what the instants did. `own_rollbacks`: request times of this attempt's
        rollbacks; grows.
        """
        self._storage = opened.storage
        self._journal = journal
        self._groups = groups
        self._own_rollbacks = own_rollbacks
        self._input_schema = opened.avro_schema
        self._fixed = fixed_columns(opened.definition)
        self._folded = opened.commits
        self._known = opened.commits
        self._rollbacks: frozenset[str] = frozenset()
        self._removals: frozenset[Instant] = frozenset()
        self._looked: set[str] | None = None
        """Names of the compactions and cleans that were looked at."""
        self._first_active, self._newest_seen = "", ""
        self._oldest_write: str | None = None
        self._oldest = ""
        self.schema: AvroSchema = opened.avro_schema
        """The table's columns, also those that other writers added meanwhile, without meta columns."""
        self.replaced: frozenset[tuple[str, str]] = frozenset()
        """(partition path, file id) of file groups that readers no longer read."""
        self.partitions: set[str] = set(opened.partitions)
        """Partition paths that have their partition metadata."""

    def refresh(self) -> Timeline:
        """Load the timeline. Other writers' changes up to now count as known afterwards. Compactions are audited."""
        timeline = Timeline.load(self._storage)
        self._oldest = timeline.first_active or ""
        self._rollbacks = _times(timeline, ROLLBACK)
        self._known = frozenset(instant.request_time for instant in timeline.completed_commits)
        self._look(timeline, rollback_targets(self._storage, timeline))
        self._groups.close_names(timeline)
        return timeline

    def check(self, timeline: Timeline) -> None:
        """Raise PositionLost if, since the last `refresh`, another writer rolled back completed instants or requested a
        compaction that leaves out rows of this pipeline.
        """
        completed = frozenset(instant.request_time for instant in timeline.completed_commits)
        self._check_end(timeline)
        gone = {time for time in self._known - completed if not timeline.is_archived(time)}
        gone -= archived_completion_times(self._storage, gone).keys()  # what hides them leaves with the next archival
        ignored = self._rollbacks | frozenset(self._own_rollbacks)
        named = rollback_targets(self._storage, timeline, ignored) if _times(timeline, ROLLBACK) - ignored else set()
        # A compaction may be complete under the time of an attempt that was rolled back; a write never is.
        writes = {each.request_time for each in timeline.completed_commits if each.action == DELTA_COMMIT}
        gone |= (named & self._known & writes) | self._look(timeline, named)
        if gone:
            raise PositionLost(
                f"{self._storage.url}: another writer removed completed instants from the table: "
                f"{', '.join(sorted(gone))}; their rows are ingested again"
            )
        self._known = completed
        self._rollbacks = _times(timeline, ROLLBACK)

    def _check_end(self, timeline: Timeline) -> None:
        """Raise PositionLost if a paused process of the pipeline put an instant below the archive: as the oldest one it
        hides those that were archived since. A start removes it.
        """
        oldest, known = timeline.first_active or "", self._oldest
        self._oldest = oldest
        if not oldest or oldest >= known or oldest >= max(archived_times(self._storage), default=""):
            return
        found = timeline.find(oldest)
        if found is not None and is_of_pipeline(self._storage, found, self._journal.pipeline):
            raise PositionLost(
                f"{self._storage.url}: a process that was paused put instant {oldest} onto the timeline, and newer "
                "ones are archived: it hides their rows from readers. A start removes it"
            )

    def _was_archived(self, timeline: Timeline) -> bool:
        """Whether an archival has been at work since the last look. It takes the oldest completed write, and may leave
        cleans that are older, and what has a savepoint.
        """
        taken = self._oldest_write is not None and self._oldest_write not in timeline.times
        return taken or min(timeline.times, default="") != self._first_active

    def _look(self, timeline: Timeline, named: Collection[str]) -> set[str]:
        archived: Iterable[Sequence[ArchivedService]] = ()
        if self._looked is None:
            self._looked = self._journal.audited()
            archived = archived_unseen(self._storage, self._journal)
        elif self._was_archived(timeline):
            archived = archived_services(self._storage, self._first_active, self._newest_seen)
        gone = look(
            self._storage,
            self._journal,
            timeline,
            self._looked,
            named=named,
            archived=archived,
            cleans=completed_cleans(timeline),
        )
        self._first_active, self._newest_seen = min(timeline.times, default=""), max(timeline.times, default="")
        self._oldest_write = next((each.request_time for each in timeline.writes if each.is_completed), None)
        return gone

    def fold_in(self, timeline: Timeline) -> None:
        """Add the file groups and columns that other writers' instants made since the last call.

        Raises UnsupportedTable if another writer changed a column's type, ColumnsChanged if one added or widened
        columns: log files of this attempt have to have them.
        """
        written = []
        writes = [each for each in timeline.completed_commits if each.action != COMMIT]
        newest = max((each.completion_time or "" for each in writes if each.request_time in self._folded), default="")
        for instant in timeline.completed_commits:
            if instant.request_time not in self._folded:
                path = path_of(instant)
                data = self._storage.get(path)
                written += [(file.partition_path, file.file_id) for file in CommitMetadata.decode_files(data, path)]
                self._learn_columns(CommitMetadata.decode_schema(data, path), saw_all=instant.request_time > newest)
                newest = max(newest, instant.completion_time or "") if instant.action != COMMIT else newest
        if _times(timeline, REPLACE_COMMIT) or self.replaced:
            self.replaced = replaced_file_groups(self._storage, timeline)
        self._groups.fold_in(timeline, written, self.replaced)
        self._folded = frozenset(instant.request_time for instant in timeline.completed_commits)
        # Each may have deleted a partition with its metadata, a clean at last before it completes.
        removals = frozenset(each for each in timeline.instants if each.action in {CLEAN, RESTORE})
        if removals - self._removals:
            self.partitions.clear()
        self._removals = removals

    def _learn_columns(self, schema: str | None, *, saw_all: bool) -> None:
        """Readers take the table's schema from our commits: a column that a commit leaves out is lost. `saw_all`: the
        commit's writer began when those were complete that were learned from.
        """
        if schema is None:
            return
        comparison = compare_schemas(json.loads(schema), self._input_schema, self._fixed)
        if comparison.fit is Fit.REFUSED:
            raise UnsupportedTable(self._storage.url, [f"schema: {reason}" for reason in comparison.reasons])
        more = compare_schemas(self._input_schema, comparison.schema)
        if changed := (*more.added, *more.widened):  # hudi-rs takes what a newer block lacks from an older row
            raise ColumnsChanged(
                f"{self._storage.url}: another writer added or widened {', '.join(changed)}; open it again"
            )
        self.schema = comparison.schema if saw_all else joined(comparison.schema, self.schema)

    def with_columns_of(self, pending: Instant) -> AvroSchema | None:
        """The table's columns and those of a pending instant that an earlier attempt began: its blocks have them. None
        if they cannot be one table's.
        """
        path = path_of(pending)
        text = CommitMetadata.decode_schema(self._storage.get(path), path)
        if text is None:
            return self.schema
        comparison = compare_schemas(self.schema, json.loads(text), self._fixed)
        return None if comparison.fit is Fit.REFUSED else comparison.schema

    def wrote(self, instant: str, file_groups: Collection[tuple[str, str]], *, is_own: bool) -> None:
        """An instant is complete, with these (partition path, file id). Not `is_own`: it is of an earlier attempt,
        which may have had more columns; the next `fold_in` learns them.
        """
        self._groups.wrote(file_groups)
        self.partitions.update(partition_path for partition_path, _ in file_groups)
        if is_own:
            self._folded |= {instant}
        self._known |= {instant}
        self._oldest_write = self._oldest_write or instant


def _times(timeline: Timeline, action: str) -> frozenset[str]:
    return frozenset(instant.request_time for instant in timeline.instants if instant.action == action)
