"""What the own objects of a merge of file groups hold: the plan and its results, and how each is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Self

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import BaseFileName, join, parse_data_file_name
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.errors import NewerFormat

FORMAT_VERSION: Final = 1
"""Counts up whenever an older release would misread these objects."""


class MergeEnd(StrEnum):
    """How a merge ended."""

    COMPLETED = "completed"
    VOID = "void"
    """Nothing was merged: the table's file groups are as they were."""


@dataclass(frozen=True, slots=True)
class MergedSlice:
    """The newest slice of a file group that is merged; names of its files."""

    file_id: str
    base_file: str | None
    log_files: tuple[str, ...]
    """In the order in which readers merge them."""
    size: int


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A file group that takes the place of several."""

    partition_path: str
    file_id: str
    slices: tuple[MergedSlice, ...]

    @property
    def replaced(self) -> frozenset[Group]:
        """The groups whose place it takes."""
        return frozenset((self.partition_path, each.file_id) for each in self.slices)

    def file_name(self, instant: str) -> str:
        """Of its base file."""
        return str(BaseFileName(self.file_id, instant))

    def path(self, instant: str) -> str:
        """Of its base file, relative to the table's root."""
        return join(self.partition_path, self.file_name(instant))


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge of file groups. Its new file ids and its instant's time are used by no other plan."""

    instant: str
    """Its request time."""
    schema: str
    """Avro schema of the base files, as JSON, without meta columns."""
    known: frozenset[str]
    """Request times of the write instants that had completed when the slices were listed."""
    first_active: str | None
    """Of the timeline then: an archival since may hide what other instants did."""
    new_groups: tuple[NewGroup, ...]

    @property
    def completion_time(self) -> str:
        """The next millisecond, whenever it is committed: its file groups are until then as they were at its request.
        Incremental readers leave the old groups out of every range that ends after the request, and take the new ones
        into those that end after the completion. So no commit may complete between the two.
        """
        return format_time(parse_time(self.instant) + timedelta(milliseconds=1))

    @property
    def paths(self) -> list[str]:
        """Of all base files that it may make, relative to the table's root."""
        return [each.path(self.instant) for each in self.new_groups]

    @property
    def replaced(self) -> frozenset[Group]:
        """The groups that it merges."""
        return frozenset().union(*(each.replaced for each in self.new_groups))

    @property
    def size(self) -> int:
        """Bytes of the files that it merges."""
        return sum(files.size for each in self.new_groups for files in each.slices)

    @property
    def merged_instants(self) -> frozenset[str]:
        """Request times of the instants whose files it merges."""
        slices = [files for each in self.new_groups for files in each.slices]
        names = [parse_data_file_name(name) for files in slices for name in (files.base_file, *files.log_files) if name]
        return frozenset(name.instant for name in names if name is not None)

    def encode(self) -> bytes:
        """As it is stored: JSON."""
        record = {
            "version": FORMAT_VERSION,
            "instant": self.instant,
            "schema": self.schema,
            "known": sorted(self.known),
            "firstActive": self.first_active,
            "newGroups": [
                [
                    each.partition_path,
                    each.file_id,
                    [[files.file_id, files.base_file, list(files.log_files), files.size] for files in each.slices],
                ]
                for each in self.new_groups
            ],
        }
        return json.dumps(record).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises NewerFormat, and InvalidTable for anything else."""
        record = _load(data, where)
        if record.get("version", 0) > FORMAT_VERSION:
            raise NewerFormat(
                f"{where} was written by a newer release of bucketingest: run table services with that one"
            )
        try:
            groups = tuple(
                NewGroup(
                    path, file_id, tuple(MergedSlice(old, base, tuple(logs), size) for old, base, logs, size in slices)
                )
                for path, file_id, slices in record["newGroups"]
            )
            return cls(record["instant"], record["schema"], frozenset(record["known"]), record["firstActive"], groups)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTable(f"{where} is not the plan of a merge of file groups: {error!r}") from error


@dataclass(frozen=True, slots=True)
class NewGroupResult:
    """What became of a new group: the statistics of its base file, or why there is none."""

    stat: WriteStat | None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class MergeEnded:
    """A merge of file groups that ended."""

    instant: str
    """Its request time."""
    end: MergeEnd
    why: str
    new_groups: int = 0
    replaced: frozenset[Group] = frozenset()
    """The file groups that nobody reads any more."""
    kept: frozenset[Group] = frozenset()
    """Those of its plan that stay: they were written to meanwhile, or cannot be merged."""


def encode_results(results: Sequence[NewGroupResult]) -> bytes:
    """The results of a plan's new groups, in their order."""
    return json.dumps(
        [{"failed": each.failed} if each.stat is None else {"stat": each.stat.to_avro()} for each in results]
    ).encode()


def decode_results(data: bytes, where: str) -> tuple[NewGroupResult, ...]:
    """As `encode_results` made it. Raises InvalidTable."""
    records = _load(data, where)
    try:
        return tuple(
            NewGroupResult(WriteStat.from_avro(each["stat"]) if "stat" in each else None, each.get("failed"))
            for each in records
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTable(f"{where} has no results of a merge of file groups: {error!r}") from error


def _load(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise InvalidTable(f"{where} cannot be read: {error}") from error
