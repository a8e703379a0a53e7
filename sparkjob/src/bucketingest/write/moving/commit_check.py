"""Before the commit of an instant, if another writer has committed since its plan: whether keys are still where the
plan has them. Else a key could live in two partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bucketingest.hudi.timeline.commit_metadata import TABLE_SERVICES, CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import CLOCKS_DIFFER, format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.state_index import StateIndex
from bucketingest.index.whole_table.identity import WHOLE_TABLE, group_name, group_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.pipeline_names import PIPELINE
from bucketingest.write.rows.write_status import WriteStatus, new_keys_of
from bucketingest.write.table_groups import Group


@dataclass(frozen=True)
class CommitCheck:
    """One instant of a table in which a key is in one partition only."""

    storage: Storage
    timeline: Timeline
    index: StateIndex
    """As it is now."""
    planned: PlannedFileIds
    folded: frozenset[str] | None
    """File names of the completed instants that the plan knows; None: another attempt made it."""

    def refusal(self, statuses: Iterable[WriteStatus]) -> str | None:
        """Why the instant must not be committed."""
        known = self.index.manifest.partitions.get(WHOLE_TABLE)
        covered = known.covered if known is not None else {}
        for status in statuses:
            path, file_id = status.partition_path, status.file_id
            if new_keys_of(status) is not None:
                try:
                    why = self._moved(status)
                except NotFound as error:
                    return f"another writer deleted a file of it: {error}"
                if why is not None:
                    return why
            elif group_name(path, file_id) not in covered:
                return f"another writer removed file group {file_id} of partition {path!r} meanwhile"
            elif status.deletes and (path, file_id) in self._changed:
                return f"another writer wrote to file group {file_id} of partition {path!r}, which keys leave"
        return None

    @cached_property
    def _changed(self) -> set[Group]:
        """File groups that got rows since the plan; a compaction changes none."""
        groups: set[Group] = set()
        for instant in self.timeline.completed_commits:
            if instant.action != COMMIT and not self._is_planned_on(instant):
                path = path_of(instant)
                files = CommitMetadata.decode_files(self.storage.get(path), path)
                groups |= {(file.partition_path, file.file_id) for file in files}
        return groups

    def _is_planned_on(self, instant: Instant) -> bool:
        """Whether the plan knows what the instant wrote. That of another attempt says by the newest completion time
        only what it knew: another writer, whose clock is behind, may have completed before that time since.
        """
        if self.folded is not None:
            return instant.file_name in self.folded
        done, view = instant.completion_time or "", self.planned.plan.view
        if done > view or done <= format_time(parse_time(view) - CLOCKS_DIFFER):
            return done <= view
        path = path_of(instant)
        commit = CommitMetadata.decode(self.storage.get(path), path)
        return PIPELINE in commit.extra_metadata or commit.operation_type in TABLE_SERVICES

    def _moved(self, status: WriteStatus) -> str | None:
        """Whether a key that is new in this file group has another place than at the plan's time."""
        files, now = new_keys_of(status), self.index.look_up(WHOLE_TABLE)
        if files is None or now is None:
            return None
        places = self.planned.key_places(self.storage)
        mine = group_name(status.partition_path, status.file_id)
        # For each group of now its number in the plan; that of an unknown key is the last one.
        numbers = {group_name(*group): number for number, group in enumerate(places.groups)}
        same = np.array([*(numbers.get(name, -2) for name in now.groups), -1], np.int64)
        own = np.array([*(name == mine for name in now.groups), True], np.bool_)
        for keys in keys_of_rows(self.storage, files):
            before, hashed = places.find(keys)
            found = now.find(hashed)
            elsewhere = found[~own[found] & (same[found] != before)]
            if len(elsewhere):
                path, file_id = group_of(now.groups[int(elsewhere[0])])
                return (
                    f"another writer put keys of file group {status.file_id} of partition {status.partition_path!r} "
                    f"into {file_id} of partition {path!r} meanwhile"
                )
        return None
