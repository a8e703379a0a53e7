"""File slices as they were when a plan was made: each attempt of a task that follows the plan reads the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from bucketingest.hudi.history.archived import with_hidden
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.file_view import FileGroup, FileSlice, load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage


@dataclass
class TableAt:
    """A table as of a completion time. What is read stays in memory: one listing for each partition that is asked for,
    one for the timeline, and its commits once.
    """

    storage: Storage
    completion_time: str
    _partitions: dict[str, dict[str, FileGroup]] = field(default_factory=dict)

    def slice_of(self, partition_path: str, file_id: str) -> FileSlice:
        """The newest slice of a file group. Raises NotFound if it is gone."""
        if partition_path not in self._partitions:
            named = self._named.get(partition_path, ())
            view = load_file_view(self.storage, self._timeline, [partition_path], named)
            self._partitions[partition_path] = dict(view.partitions.get(partition_path, {}))
        group = self._partitions[partition_path].get(file_id)
        if group is None or group.latest is None:
            raise NotFound(f"{self.storage.url}: file group {file_id} of partition {partition_path!r} was removed")
        return group.latest

    @cached_property
    def _timeline(self) -> Timeline:
        return with_hidden(self.storage, Timeline.load(self.storage)).as_of(self.completion_time)

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """The files of the commits on the timeline, by partition: a listing may leave the newest ones out."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for instant in self._timeline.completed_commits:
            path = path_of(instant)
            for file in CommitMetadata.decode_files(self.storage.get(path), path):
                if file.name:
                    found[file.partition_path].append(join(file.partition_path, file.name))
        return found
