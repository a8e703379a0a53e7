"""Before the commit of an instant, if another writer has committed since its plan: whether keys are still where the
plan has them. Else a key could live in two partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.state_index import StateIndex
from bucketingest.index.whole_table.identity import WHOLE_TABLE, group_name, group_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.rows.write_status import WriteStatus, new_keys_of
from bucketingest.write.table_groups import Group


@dataclass(frozen=True, slots=True)
class CommitCheck:
    """One instant of a table in which a key is in one partition only."""

    storage: Storage
    index: StateIndex
    """As it is now."""
    planned: PlannedFileIds
    folded: frozenset[str] | None
    """File names of the completed instants that the plan knows; None: another attempt made it."""

    def refusal(self, timeline: Timeline, statuses: Iterable[WriteStatus]) -> str | None:
        """Why the instant must not be committed."""
        known = self.index.manifest.partitions.get(WHOLE_TABLE)
        covered = known.covered if known is not None else {}
        changed = self._changed(timeline)
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
            elif status.deletes and (path, file_id) in changed:
                return f"another writer wrote to file group {file_id} of partition {path!r}, which keys leave"
        return None

    def _changed(self, timeline: Timeline) -> set[Group]:
        """File groups that got rows since the plan; a compaction changes none."""
        groups: set[Group] = set()
        for instant in timeline.completed_commits:
            is_known = (instant.completion_time or "") <= self.planned.plan.view
            if self.folded is not None:
                is_known = instant.file_name in self.folded
            if not is_known and instant.action != COMMIT:
                path = path_of(instant)
                files = CommitMetadata.decode_files(self.storage.get(path), path)
                groups |= {(file.partition_path, file.file_id) for file in files}
        return groups

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
