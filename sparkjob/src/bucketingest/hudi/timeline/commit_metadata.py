"""Content of a completed deltacommit: the files it wrote and, in extra metadata, its pipeline and source position."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import fastavro

from bucketingest.hudi.timeline.ocf import container, encode_long, encode_text, read_record, schema_text
from bucketingest.hudi.timeline.write_stat import WriteStat

SCHEMA_NAME = "HoodieCommitMetadata"
SCHEMA_KEY = "schema"
"""Key of the extra metadata under which Hudi keeps the table's Avro schema, without the meta columns."""

UPSERT = "UPSERT"
TABLE_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX"})
"""Operation types that write no rows of their own."""

_OF_A_FILE = ("fileId", "path", "fileSizeInBytes", "numWrites", "numDeletes")

_SOME = b"\x02"  # branch 1 of the union [null, T]
_BLOCKS_END = b"\x00"  # an Avro map or array ends in an empty block


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file of a commit."""

    partition_path: str
    file_id: str
    name: str
    size: int = 0
    """Bytes; 0: it is not known."""
    rows: int = 0
    """Rows and deletes."""
    rows_in_file: int = 0
    """Rows that a reader of the file alone sees."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """HoodieCommitMetadata: partition path -> write stats, and the extra metadata (text -> text).

    `extra_metadata["schema"]` is the table's Avro schema as JSON without meta columns; the other keys are the writer's
    own.
    """

    write_stats: Mapping[str, Sequence[WriteStat]] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    operation_type: str = UPSERT
    compacted: bool = False

    def encode(self) -> bytes:
        """The bytes of the completed (or inflight) file: an Avro object container file, as Hudi 1.2.0 writes it.

        Equal metadata gives equal bytes. 100,000 write stats make about 25 MB.
        """
        return container(SCHEMA_NAME, self._datum())

    def _datum(self) -> bytes:
        parts = [_SOME, _map_start(len(self.write_stats))]
        for partition_path, stats in self.write_stats.items():
            parts.append(encode_text(partition_path))
            if stats:
                # A negative count says that the block's size in bytes follows: a reader of only the extra metadata can
                # skip it.
                block = b"".join([stat.encode() for stat in stats])
                parts.extend((encode_long(-len(stats)), encode_long(len(block)), block))
            parts.append(_BLOCKS_END)
        parts.append(_BLOCKS_END)
        parts.append(b"\x02\x01" if self.compacted else b"\x02\x00")
        parts.extend((_SOME, _map_start(len(self.extra_metadata))))
        for key, value in self.extra_metadata.items():
            parts.extend((encode_text(key), encode_text(value)))
        parts.append(_BLOCKS_END)
        parts.append(b"\x00\x02")  # version: branch int of [int, null], value 1
        parts.extend((_SOME, encode_text(self.operation_type)))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Metadata in the bytes of a commit's, deltacommit's or inflight file; an empty file gives empty metadata.

        `where` names the file in the error. Raises `InvalidTable` if the bytes are not Avro.
        """
        if not data:
            return cls(operation_type="UNKNOWN")
        record = read_record(data, where)
        stats = record.get("partitionToWriteStats") or {}
        return cls(
            write_stats={path: tuple(map(WriteStat.from_avro, items)) for path, items in stats.items()},
            extra_metadata=dict(record.get("extraMetadata") or {}),
            operation_type=record.get("operationType") or "UNKNOWN",
            compacted=bool(record.get("compacted")),
        )

    @classmethod
    def decode_extra(cls, data: bytes, where: str) -> dict[str, str]:
        """Only the extra metadata: in our own files without reading the write stats. Raises as `decode`."""
        if not data:
            return {}
        return dict(read_record(data, where, _only("extraMetadata")).get("extraMetadata") or {})

    @classmethod
    def decode_schema(cls, data: bytes, where: str) -> str | None:
        """The table's schema in a write's commit, as JSON; None if it has none, or is a table service's: its schema is
        from its plan and may be older. Raises as `decode`.
        """
        if not data:
            return None
        if read_record(data, where, _only("operationType")).get("operationType") in TABLE_SERVICES:
            return None
        return cls.decode_extra(data, where).get(SCHEMA_KEY)

    @classmethod
    def decode_files(cls, data: bytes, where: str) -> list[WrittenFile]:
        """Every write stat's file, without the rest of it. Raises as `decode`."""
        if not data:
            return []
        record = read_record(data, where, _only("partitionToWriteStats", *_OF_A_FILE))
        return [
            WrittenFile(
                partition_path,
                stat["fileId"] or "",
                (stat["path"] or "").rpartition("/")[2],
                stat["fileSizeInBytes"] or 0,
                (stat["numWrites"] or 0) + (stat["numDeletes"] or 0),
                stat["numWrites"] or 0,
            )
            for partition_path, stats in (record.get("partitionToWriteStats") or {}).items()
            for stat in stats
        ]

    @property
    def files(self) -> tuple[str, ...]:
        """Paths, relative to the table's root, of all files that the write stats name."""
        return tuple(stat.path for stats in self.write_stats.values() for stat in stats if stat.path is not None)


def _map_start(entries: int) -> bytes:
    return encode_long(entries) if entries else b""


@cache
def _only(field_name: str, *stat_fields: str) -> Any:
    """The format's schema with only one field of the commit, and only the named fields of its write stats. A
    replacecommit's file has another record type, which has these fields as well.
    """
    schema = json.loads(schema_text(SCHEMA_NAME))
    schema["aliases"] = [f"{schema['namespace']}.HoodieReplaceCommitMetadata"]
    schema["fields"] = [each for each in schema["fields"] if each["name"] == field_name]
    if stat_fields:
        stats = schema["fields"][0]["type"][1]["values"]["items"]
        stats["fields"] = [each for each in stats["fields"] if each["name"] in stat_fields]
    return fastavro.parse_schema(schema)
