"""What pending compactions read and readers do not. A scheduler without the table's lock may plan one from an old look,
while another compaction of the file group completes: its rows are back when it completes, also deleted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bucketingest.hudi.naming import BaseFileName, LogFileName, join
from bucketingest.hudi.plans.compaction_plan import CompactionOperation, read_compaction_plan
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice
from bucketingest.hudi.timeline.instant import COMPACTION
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.coverage import CoveredSlice, Pending, PendingInput
from bucketingest.storage import Storage
from bucketingest.write.table_groups import Group


@dataclass(slots=True)
class PendingInputs:
    """The pending compactions of one table, as its timeline was seen last."""

    storage: Storage
    _operations: dict[str, Mapping[Group, CompactionOperation]] = field(default_factory=dict)
    """By compaction."""
    _changed: dict[Group, list[tuple[str, CompactionOperation]]] = field(default_factory=dict)
    """Of compactions that appeared or ended since the state had the keys of all, each with its compaction."""

    def follow(self, timeline: Timeline) -> None:
        """Read the plans of new ones. Raises InvalidTable for one that cannot be read."""
        pending = {each.request_time for each in timeline.pending if each.action == COMPACTION}
        for compaction in pending - self._operations.keys():
            plan = read_compaction_plan(self.storage, compaction)
            if plan is not None:
                self._operations[compaction] = {operation.group: operation for operation in plan.operations}
                self._note(compaction)
        for compaction in self._operations.keys() - pending:
            self._note(compaction)
            del self._operations[compaction]

    def changed(self, covered: Callable[[Group], CoveredSlice | None]) -> set[str]:
        """Partition paths of those that appeared or ended and read other files than the state has keys of."""
        return {
            group[0]
            for group, changes in self._changed.items()
            if (known := covered(group)) is not None
            and any(_is_beside(compaction, operation, known.base_instant) for compaction, operation in changes)
        }

    def covered(self) -> None:
        """The state has the keys of all."""
        self._changed.clear()

    def of(self, groups: Mapping[str, FileGroup]) -> Pending:
        """For each of these file groups what readers of its latest slice do not see."""
        found: dict[str, list[PendingInput]] = {}
        for compaction, operations in sorted(self._operations.items()):
            for name, group in groups.items():
                operation, latest = operations.get((group.partition_path, group.file_id)), group.latest
                base = latest.base_file.instant if latest is not None and latest.base_file is not None else ""
                if operation is not None and _is_beside(compaction, operation, base):
                    found.setdefault(name, []).append(PendingInput(compaction, _files(operation)))
        return found

    def _note(self, compaction: str) -> None:
        for group, operation in self._operations[compaction].items():
            self._changed.setdefault(group, []).append((compaction, operation))


def _is_beside(compaction: str, operation: CompactionOperation, base_instant: str) -> bool:
    """Whether the compaction reads another base file than readers do, and they will read what it makes of it."""
    base = BaseFileName.try_parse(operation.base_file or "")
    return base_instant < compaction and (base.instant if base is not None else "") != base_instant


def _files(operation: CompactionOperation) -> FileSlice:
    base = BaseFileName.try_parse(operation.base_file or "")
    logs = [name for name in map(LogFileName.try_parse, operation.log_files) if name is not None]
    return FileSlice(
        operation.base_instant,
        None if base is None else _file(operation.partition_path, base),
        tuple(_file(operation.partition_path, name) for name in logs),
    )


def _file(partition_path: str, name: BaseFileName | LogFileName) -> DataFile:
    return DataFile(join(partition_path, str(name)), 0, name)
