"""Names of data files, file ids and directories: in Hudi 1.x a file's name alone decides what it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from bucketingest.hudi.errors import InvalidName

HOODIE_DIRECTORY = ".hoodie"
PROPERTIES_PATH = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP = f"{PROPERTIES_PATH}.backup"
"""There while a Hudi writer replaces the properties."""
TIMELINE_DIRECTORY = ".hoodie/timeline"
HISTORY_DIRECTORY = ".hoodie/timeline/history"
TEMP_DIRECTORY = ".hoodie/.temp"
OWN_DIRECTORY = f"{HOODIE_DIRECTORY}/.bucketingest"
"""Our objects next to the table, where neither readers nor Hudi's writers look."""
HEARTBEAT_DIRECTORY = ".hoodie/.heartbeat"
PARTITION_METADATA_NAME = ".hoodie_partition_metadata"
PARTITION_MARKS = (PARTITION_METADATA_NAME, *(f"{PARTITION_METADATA_NAME}.{kind}" for kind in ("parquet", "orc")))
"""Names of that file in the tables of all writers: with `hoodie.partition.metafile.use.base.format` it is a base file
(Hudi 1.2.0, `HoodiePartitionMetadata`).
"""

BUCKET_MAX = 99_999_999
"""Largest bucket id that fits the eight digits at the start of a file id."""

WRITE_TOKEN = "0-0-0"  # noqa: S105 - the name of a field of the format
"""Write token of every file that we write: it does not name the attempt, so two attempts of a task use one name."""

# The patterns are those of Hudi 1.2.0's FSUtils: Hudi's readers ignore other names.
_LOG_FILE = re.compile(r"\.([^._]+)_([^.]*)\.log\.(\d+)(?:_(\d+-\d+-\d+)(\.cdc)?)?")
_BASE_FILE = re.compile(r"([a-zA-Z0-9-]+)_([a-zA-Z0-9-]+)_([0-9]+)\.([a-zA-Z0-9]+)")
_BUCKET_PREFIX = re.compile(r"[0-9]{8}")


def deterministic_file_id(bucket: int, number: int = 0) -> str:
    """File id of a bucket's file group: `00000003-0000-0000-0000-000000000000-0` for bucket 3. `number`: how many of
    these ids are used up, because their file groups were replaced; it is the last group of digits.

    This is the form of Hudi 1.2.0's non-blocking mode (`BucketIdentifier.newBucketFileIdForNBCC`). It needs no state,
    so a fail-over cannot give a bucket a second file group. Raises `InvalidName` for a bucket outside 0..99,999,999.
    """
    if not 0 <= bucket <= BUCKET_MAX:
        raise InvalidName(f"bucket {bucket} cannot be part of a file id: it must be from 0 to {BUCKET_MAX}")
    return f"{bucket:08d}-0000-0000-0000-{number:012d}-0"


def bucket_of_file_id(file_id: str) -> int:
    """Bucket id that a file id of a bucket-indexed table starts with (Hudi 1.2.0:
    `BucketIdentifier.bucketIdFromFileId`).

    Raises `InvalidName` if the file id does not start with eight decimal digits, i.e. was not written with a bucket
    index.
    """
    prefix = file_id[:8]
    if _BUCKET_PREFIX.fullmatch(prefix) is None:
        raise InvalidName(
            f"file id {file_id!r} does not start with an eight-digit bucket id: "
            "the file was not written with Hudi's simple bucket index"
        )
    return int(prefix)


@dataclass(frozen=True, slots=True, order=True)
class LogFileName:
    """Name of a log file of table version 8 or 9: `.<file id>_<instant>.log.<version>_<write token>`.

    `instant` is the request time of the deltacommit that wrote it; `version` counts from 1 within (file id, instant).
    """

    file_id: str
    instant: str
    version: int
    write_token: str = WRITE_TOKEN

    def __str__(self) -> str:
        return f".{self.file_id}_{self.instant}.log.{self.version}_{self.write_token}"

    @classmethod
    def try_parse(cls, name: str) -> Self | None:
        """Parse a file name (no directories); None if it is not a data log file. CDC logs are not data."""
        match = _LOG_FILE.fullmatch(name)
        if match is None or match[5] is not None:
            return None
        return cls(match[1], match[2], int(match[3]), match[4] or "")

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse a file name (no directories). Raises `InvalidName`."""
        parsed = cls.try_parse(name)
        if parsed is None:
            raise InvalidName(f"{name!r} is not a log file name (.<file id>_<instant>.log.<version>_<write token>)")
        return parsed


@dataclass(frozen=True, slots=True, order=True)
class BaseFileName:
    """Name of a base file: `<file id>_<write token>_<instant>.<extension>`; `instant` is a request time."""

    file_id: str
    instant: str
    write_token: str = WRITE_TOKEN
    extension: str = "parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"

    @classmethod
    def try_parse(cls, name: str) -> Self | None:
        """Parse a file name (no directories); None if it is not a base file."""
        match = _BASE_FILE.fullmatch(name)
        return cls(match[1], match[3], match[2], match[4]) if match is not None else None

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse a file name (no directories). Raises `InvalidName`."""
        parsed = cls.try_parse(name)
        if parsed is None:
            raise InvalidName(f"{name!r} is not a base file name (<file id>_<write token>_<instant>.parquet)")
        return parsed


def parse_data_file_name(name: str) -> LogFileName | BaseFileName | None:
    """The log or base file of this name (no directories); None for anything else (metadata, .crc, markers)."""
    return LogFileName.try_parse(name) or BaseFileName.try_parse(name)


def version_of(path: str) -> int | None:
    """Version in the name of a log file; None if it is not a log file."""
    name = LogFileName.try_parse(split(path)[1])
    return None if name is None else name.version


def join(partition_path: str, name: str) -> str:
    """Path of a partition's file, relative to the table's root; the partition path of an unpartitioned table is ""."""
    return f"{partition_path}/{name}" if partition_path else name


def split(path: str) -> tuple[str, str]:
    """Partition path and name of a file, from its path relative to the table's root."""
    partition_path, _, name = path.rpartition("/")
    return partition_path, name
