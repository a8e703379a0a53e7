"""A small reader of the table that shares no code with the project: what Hudi's readers show, from the files alone.

It knows log-only file groups of table version 9: completed instants by the names on the timeline, files by the instant
in their names, blocks by their frame.
"""

from __future__ import annotations

import functools
import io
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq

_TIMELINE: Final = ".hoodie/timeline/"
_COMPLETED: Final = re.compile(r"(\d{17})_(\d{17})\.deltacommit")
_PENDING: Final = re.compile(r"(\d{17})\.deltacommit\.(?:requested|inflight)")
_ROLLBACK: Final = re.compile(r"(\d{17})(_\d{17})?\.rollback(?:\.requested|\.inflight)?")
_LOG: Final = re.compile(r"(?:(.*)/)?\.([^._/]+)_(\d{17})\.log\.(\d+)_\d+-\d+-\d+")
_DELETE, _AVRO, _PARQUET = 1, 3, 5
_INSTANT_HEADER, _SCHEMA_HEADER = 0, 2


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file by its name."""

    path: str
    partition: str
    file_id: str
    instant: str
    version: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A row, or the deletion of a key, in a log file."""

    key: str
    ordering: Any
    row: Mapping[str, Any] | None
    file: LogFile


@dataclass(frozen=True)
class Snapshot:
    """All that the names in a store say."""

    completed: Mapping[str, str]
    """Request time -> path of the completed file."""
    completion_times: Mapping[str, str]
    pending: frozenset[str]
    rolled_back: frozenset[str]
    """Instants that a rollback, pending or completed, names."""
    pending_rollbacks: frozenset[str]
    """Instants that a rollback names which is not completed."""
    files: tuple[LogFile, ...]
    objects: Mapping[str, bytes] = field(repr=False)

    def visible(self, *, archived: bool) -> list[LogFile]:
        """Files that readers show, in the order in which they merge them. `archived`: also those that are so old that
        readers take their instant for an archived one.
        """
        active = [*self.completed, *self.pending]
        first = min(active, default="") if archived else ""
        shown = [file for file in self.files if file.instant in self.completed or file.instant < first]
        return sorted(
            shown, key=lambda file: (self.completion_times.get(file.instant, file.instant), file.instant, file.version)
        )

    def entries(self, *, archived: bool = False) -> Iterator[Entry]:
        """Every row and deletion that readers see, before merging."""
        for file in self.visible(archived=archived):
            yield from _entries(file, self.objects[file.path])

    def metadata(self, instant: str) -> dict[str, Any]:
        """What the completed file of an instant says."""
        return _record(self.objects[self.completed[instant]])


def read(objects: Mapping[str, bytes]) -> Snapshot:
    """The table in these objects (path -> content)."""
    completed, times, pending, rolled_back, pending_rollbacks = {}, {}, set(), set(), {}
    finished_rollbacks = set()
    for path, content in objects.items():
        name = path.removeprefix(_TIMELINE)
        if name == path or "/" in name:
            continue
        if match := _COMPLETED.fullmatch(name):
            completed[match[1]] = path
            times[match[1]] = match[2]
        elif match := _PENDING.fullmatch(name):
            pending.add(match[1])
        elif match := _ROLLBACK.fullmatch(name):
            if match[2]:
                finished_rollbacks.add(match[1])
                rolled_back.update(_record(content)["commitsRollback"])
            elif name.endswith(".requested"):
                target = _record(content)["instantToRollback"]["commitTime"]
                pending_rollbacks[match[1]] = target
                rolled_back.add(target)
    files = []
    for path in objects:
        match = None if path.startswith(".hoodie/") else _LOG.fullmatch(path)
        if match is not None:
            files.append(LogFile(path, match[1] or "", match[2], match[3], int(match[4])))
    return Snapshot(
        completed=completed,
        completion_times=times,
        pending=frozenset(pending - completed.keys()),
        rolled_back=frozenset(rolled_back),
        pending_rollbacks=frozenset(
            target for time, target in pending_rollbacks.items() if time not in finished_rollbacks
        ),
        files=tuple(files),
        objects=objects,
    )


def merged(entries: Iterator[Entry] | list[Entry]) -> dict[str, Mapping[str, Any]]:
    """Key -> row, as event-time ordering decides: greater wins, of equals the later."""
    winners: dict[str, Entry] = {}
    for entry in entries:
        known = winners.get(entry.key)
        if known is None or entry.ordering >= known.ordering:
            winners[entry.key] = entry
    return {key: entry.row for key, entry in winners.items() if entry.row is not None}


def _entries(file: LogFile, data: bytes) -> Iterator[Entry]:
    position = 0
    while position < len(data):
        magic, length, version, kind = struct.unpack_from(">6sqii", data, position)
        assert (magic, version) == (b"#HUDI#", 1), f"{file.path}: no block at byte {position}"
        end = position + 14 + length
        headers, at = _headers(data, position + 22)
        assert headers[_INSTANT_HEADER] == file.instant, f"{file.path}: a block of another instant"
        (size,) = struct.unpack_from(">q", data, at)
        content = data[at + 8 : at + 8 + size]
        footers, total = struct.unpack_from(">iq", data, at + 8 + size)
        assert (footers, total, at + 8 + size + 12) == (0, length + 6, end), f"{file.path}: lengths disagree"
        yield from _content(file, kind, headers, content)
        position = end


def _headers(data: bytes, at: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    headers = {}
    for _ in range(count):
        key, size = struct.unpack_from(">ii", data, at)
        headers[key] = data[at + 8 : at + 8 + size].decode()
        at += 8 + size
    return headers, at


def _content(file: LogFile, kind: int, headers: Mapping[int, str], content: bytes) -> Iterator[Entry]:
    if kind == _DELETE:
        listed: Any = fastavro.schemaless_reader(io.BytesIO(content[8:]), _delete_schema(), None)
        for deleted in listed["deleteRecordList"]:
            assert deleted["partitionPath"] == file.partition, f"{file.path}: a delete of another partition"
            yield Entry(deleted["recordKey"], deleted["orderingVal"]["value"], None, file)
        return
    if kind == _PARQUET:
        rows = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False).to_pylist()
    else:
        assert kind == _AVRO, f"{file.path}: a block of type {kind}"
        rows = list(_avro_rows(headers[_SCHEMA_HEADER], content))
    for row in rows:
        assert row["_hoodie_partition_path"] == file.partition, f"{file.path}: a row of another partition"
        assert row["_hoodie_commit_time"] == file.instant, f"{file.path}: a row of another instant"
        yield Entry(row["_hoodie_record_key"], row["at"], row, file)


def _avro_rows(schema: str, content: bytes) -> Iterator[dict[str, Any]]:
    version, count = struct.unpack_from(">ii", content)
    assert version == 3
    stream = io.BytesIO(content)
    stream.seek(8)
    for _ in range(count):
        (size,) = struct.unpack(">i", stream.read(4))
        end = stream.tell() + size
        row: Any = fastavro.schemaless_reader(stream, _parsed(schema), None)
        assert stream.tell() == end
        yield row


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@functools.cache
def _delete_schema() -> Any:
    text = resources.files("bucketingest.hudi").joinpath("avsc/HoodieDeleteRecordList.avsc").read_text("utf-8")
    return fastavro.parse_schema(json.loads(text))


def _record(content: bytes) -> dict[str, Any]:
    (record,) = fastavro.reader(io.BytesIO(content))
    assert isinstance(record, dict)
    return record
