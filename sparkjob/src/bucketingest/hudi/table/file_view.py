"""The files of a table at one moment: file groups and their slices, from a listing and the timeline."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from bucketingest.hudi.history.archived import archived_completion_times
from bucketingest.hudi.naming import (
    HOODIE_DIRECTORY,
    PARTITION_MARKS,
    BaseFileName,
    LogFileName,
    parse_data_file_name,
    version_of,
)
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import ObjectInfo, Storage

Group = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One log or base file. `path` is relative to the table's root, `size` in bytes."""

    path: str
    size: int
    name: LogFileName | BaseFileName

    @property
    def partition_path(self) -> str:
        """Partition of the file; "" for an unpartitioned table."""
        return self.path.rpartition("/")[0]

    @property
    def instant(self) -> str:
        """Request time of the instant that wrote it."""
        return self.name.instant


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file and the log files on top of it, in the order in which readers merge them.

    `base_instant` is the base file's instant, or that of the first log file if there is no base file.
    """

    base_instant: str
    base_file: DataFile | None
    log_files: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The base file, if there is one, and the log files."""
        return self.log_files if self.base_file is None else (self.base_file, *self.log_files)

    @property
    def size(self) -> int:
        """Bytes of all files of the slice."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All files of one file id in one partition.

    `slices` hold the committed files, oldest first; `uncommitted` are files of pending, rolled-back or unknown
    instants.
    """

    partition_path: str
    file_id: str
    slices: tuple[FileSlice, ...]
    uncommitted: tuple[DataFile, ...] = ()

    @property
    def latest(self) -> FileSlice | None:
        """The slice that a snapshot query reads; None if nothing is committed."""
        return self.slices[-1] if self.slices else None


@dataclass(frozen=True, slots=True)
class FileView:
    """Partition path -> file id -> file group.

    `marked_partitions` have a partition metadata file. In a partition with files but without it, readers skip all rows.
    """

    partitions: Mapping[str, Mapping[str, FileGroup]]
    marked_partitions: frozenset[str] = field(default_factory=frozenset)

    @property
    def groups(self) -> Iterator[FileGroup]:
        """Every file group, by partition path and file id."""
        return chain.from_iterable(groups.values() for groups in self.partitions.values())

    @property
    def uncommitted(self) -> tuple[DataFile, ...]:
        """Every file whose instant is not committed."""
        return tuple(chain.from_iterable(group.uncommitted for group in self.groups))

    @property
    def unmarked_partitions(self) -> tuple[str, ...]:
        """Partitions with committed files that readers skip, because the partition metadata file is missing."""
        return tuple(
            path
            for path, groups in self.partitions.items()
            if path not in self.marked_partitions and any(group.slices for group in groups.values())
        )


def load_file_view(
    storage: Storage, timeline: Timeline, partitions: Sequence[str] | None = None, named: Iterable[str] = ()
) -> FileView:
    """View of the whole table: one recursive listing of every top-level directory except `.hoodie`; or of some
    partitions: one listing each. `named`: paths of files that belong to the view even if the listing, which may be
    older, leaves them out.

    The timeline must be loaded before the listing: then no file can count as committed too early.
    """
    objects = list(list_data(storage, partitions))
    if missing := set(named):
        missing -= {info.path for info in objects}
        objects += _there(storage, sorted(missing))
    archived = {name.instant for name in _names(objects) if timeline.is_archived(name.instant)}
    # Only the history says when an archived instant completed, and only beside base files does it matter.
    has_bases = any(isinstance(name, BaseFileName) for name in _names(objects))
    times = archived_completion_times(storage, archived) if has_bases else {}
    return build_file_view(objects, timeline, times)


def _there(storage: Storage, paths: Iterable[str]) -> Iterator[ObjectInfo]:
    for path in paths:
        with suppress(NotFound):
            yield storage.head(path)


def _names(objects: Iterable[ObjectInfo]) -> Iterator[LogFileName | BaseFileName]:
    return filter(None, (parse_data_file_name(info.path.rpartition("/")[2]) for info in objects))


def list_data(storage: Storage, partitions: Sequence[str] | None = None) -> Iterator[ObjectInfo]:
    """Every object outside `.hoodie`; with `partitions` only the objects directly in those."""
    if partitions is not None:
        for partition_path in partitions:
            yield from storage.list_level(partition_path).objects
        return
    top = storage.list_level("")
    yield from top.objects
    for directory in top.directories:
        if directory != HOODIE_DIRECTORY:
            yield from storage.list(directory)


def build_file_view(
    objects: Iterable[ObjectInfo], timeline: Timeline, archived: Mapping[str, str] | None = None
) -> FileView:
    """View of the listed files at the moment of the timeline. Pure. Objects that are not data files are ignored.

    `archived`: completion times of archived write instants, by request time.
    """
    times = archived or {}
    files: defaultdict[str, defaultdict[str, list[DataFile]]] = defaultdict(lambda: defaultdict(list))
    marked = set()
    for info in objects:
        directory, _, base_name = info.path.rpartition("/")
        name = parse_data_file_name(base_name)
        if name is not None:
            files[directory][name.file_id].append(DataFile(info.path, info.size, name))
        elif base_name in PARTITION_MARKS:
            marked.add(directory)
    partitions = {
        partition_path: {
            file_id: _group(partition_path, file_id, groups[file_id], timeline, times) for file_id in sorted(groups)
        }
        for partition_path, groups in sorted(files.items())
    }
    return FileView(partitions, frozenset(marked))


def _group(
    partition_path: str, file_id: str, files: list[DataFile], timeline: Timeline, archived: Mapping[str, str]
) -> FileGroup:
    committed = [file for file in files if timeline.is_committed(file.instant)]
    uncommitted = tuple(sorted((file for file in files if not timeline.is_committed(file.instant)), key=_path))
    return FileGroup(partition_path, file_id, _slices(committed, timeline, archived), uncommitted)


def _slices(files: list[DataFile], timeline: Timeline, archived: Mapping[str, str]) -> tuple[FileSlice, ...]:
    """Attach each log file to the base file with the greatest instant not above the log's completion time, or to the
    newest one if that time is not known.

    This is the rule of Hudi 1.2.0 for table versions 8 and 9 (HoodieFileGroup, CompletionTimeQueryViewV2).
    """
    bases = {file.instant: file for file in sorted(files, key=_path) if isinstance(file.name, BaseFileName)}
    base_instants = sorted(bases)
    logs: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if isinstance(file.name, LogFileName):
            completion_time = timeline.completion_time(file.instant) or archived.get(file.instant)
            logs[_owner(base_instants, completion_time)].append(file)
    slices = [FileSlice(instant, bases[instant], _in_order(logs[instant])) for instant in base_instants]
    if logs[""]:
        slices.insert(0, FileSlice(min(file.instant for file in logs[""]), None, _in_order(logs[""])))
    return tuple(slices)


def _owner(base_instants: list[str], completion_time: str | None) -> str:
    position = len(base_instants) if completion_time is None else bisect_right(base_instants, completion_time)
    return base_instants[position - 1] if position else ""


def _in_order(logs: list[DataFile]) -> tuple[DataFile, ...]:
    """By request time: the order of Hudi 1.2.0's readers and its compaction (HoodieLogFile.LogFileComparator)."""
    return tuple(sorted(logs, key=lambda log: (log.instant, version_of(str(log.name)), log.name.write_token)))


def _path(file: DataFile) -> str:
    return file.path
