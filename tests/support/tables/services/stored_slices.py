"""A table of names, put onto a storage: its timeline has what Hudi would have there, its data files have one byte."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bucketingest.hudi.naming import OWN_DIRECTORY, TIMELINE_DIRECTORY, BaseFileName
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, COMPACTION, REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from support.simulation.records import container
from support.storage.dated_storage import DatedStorage
from support.tables.services.named_slices import NOW, NamedTable


@dataclass
class StoredTable:
    """Its clock goes on by a second with each look."""

    named: NamedTable
    time: datetime = NOW
    storage: Storage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = DatedStorage(open_storage(f"memory://{uuid.uuid4()}"), lambda: self.time)
        for path in self.named.paths:
            self.storage.create(path, b"x")
        for instant in self.named.timeline().completed:
            self.time = self.named.modified.get(instant.request_time, parse_time(instant.completion_time or ""))
            self._put(instant)
        self.time = NOW

    def clock(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time

    def guarded(self, storage: Storage | None = None, **changes: object) -> Guarded:
        return Guarded(storage or self.storage, **{"clock": self.clock, **changes})  # type: ignore[arg-type]

    def timeline(self) -> Timeline:
        return Timeline.load(self.storage)

    def cleans(self) -> list[Instant]:
        return [instant for instant in self.timeline().instants if instant.action == CLEAN]

    def completed_clean_files(self) -> list[str]:
        names = (info.path.rpartition("/")[2] for info in self.storage.list_level(TIMELINE_DIRECTORY).objects)
        return [name for name in names if name.endswith(".clean")]

    def data(self) -> set[str]:
        """The data files that are there."""
        return {info.path for info in self.storage.list() if not info.path.startswith(".hoodie/")}

    def own_objects(self) -> set[str]:
        return {info.path.removeprefix(f"{OWN_DIRECTORY}/services/") for info in self.storage.list(OWN_DIRECTORY)}

    def savepoint(self, instant: str, files: Iterable[str], *, pending: bool = False) -> None:
        """Another writer's savepoint of files in the partition eu."""
        path = f"{TIMELINE_DIRECTORY}/{instant}"
        if pending:
            self.storage.create(f"{path}.savepoint.inflight", b"")
            return
        partition = {"partitionPath": "eu", "savepointDataFile": [file.rpartition("/")[2] for file in files]}
        record = {"savepointedBy": "", "savepointedAt": 1, "comments": "", "partitionMetadata": {"eu": partition}}
        self.storage.create(f"{path}_{instant[:-1]}9.savepoint", container("HoodieSavepointMetadata", record))

    def _put(self, instant: Instant) -> None:
        content = b""
        superseder = self.named.superseders.get(instant.request_time)
        if superseder is not None and superseder.plan is not None:
            create_requested(self.storage, instant.request_time, COMPACTION, superseder.plan.encode())
            create_inflight(self.storage, instant.request_time, COMPACTION)
            stats = [
                WriteStat(file_id, f"{path}/{BaseFileName(file_id, instant.request_time)}", path, "null")
                for path, file_id in (operation.group for operation in superseder.plan.operations)
            ]
            content = CommitMetadata({stat.partition_path or "": [stat] for stat in stats}, {}, "COMPACT").encode()
        elif instant.action == REPLACE_COMMIT:
            groups = [group for group, by in self.named.replaced.items() if by.request_time == instant.request_time]
            record = {"partitionToReplaceFileIds": {path: [file_id] for path, file_id in groups}}
            content = container("HoodieReplaceCommitMetadata", {"partitionToWriteStats": {}, **record})
        else:
            content = CommitMetadata().encode()
        assert instant.completion_time is not None
        complete(self.storage, instant.request_time, instant.completion_time, content, instant.action)
