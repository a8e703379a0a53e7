"""What the own objects of a clustering hold: the plan and its results, and how each is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from bucketingest.hudi.naming import BaseFileName, join, parse_data_file_name
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.services.protocol.journal import ServiceJournal
from bucketingest.services.protocol.records import FORMAT_VERSION, End
from bucketingest.write.record_format import complete, decode, encode


@dataclass(frozen=True, slots=True)
class ClusteredSlice:
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
    slices: tuple[ClusteredSlice, ...]

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
class ClusteringPlan:
    """A clustering. Its new file ids and its instant's time are used by no other plan."""

    instant: str
    """Its request time."""
    completion_time: str
    """The newest time that was known then, whenever it is committed: the old file groups are until the commit as they
    were at the request. Incremental readers leave them out of every range that ends after the request, and take the new
    ones into those that end at the completion or later and begin before it. So no commit completes between the two, and
    none whose rows were merged completes after.
    """
    schema: str
    """Avro schema of the base files, as JSON, without meta columns."""
    known: frozenset[str]
    """Request times of the write instants that had completed when the slices were listed."""
    first_active: str | None
    """Of the timeline then: an archival since may hide what other instants did."""
    new_groups: tuple[NewGroup, ...]

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
        """As it is stored."""
        groups = [
            [
                each.partition_path,
                each.file_id,
                [[s.file_id, s.base_file, list(s.log_files), s.size] for s in each.slices],
            ]
            for each in self.new_groups
        ]
        fields = {
            "instant": self.instant,
            "completionTime": self.completion_time,
            "schema": self.schema,
            "known": sorted(self.known),
            "firstActive": self.first_active,
            "newGroups": groups,
        }
        return encode(FORMAT_VERSION, fields)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """As `encode` made it. Raises NewerFormat and InvalidTable."""
        record, _ = decode(data, where, FORMAT_VERSION)
        with complete(where):
            groups = tuple(
                NewGroup(
                    path,
                    file_id,
                    tuple(ClusteredSlice(old, base, tuple(logs), size) for old, base, logs, size in slices),
                )
                for path, file_id, slices in record["newGroups"]
            )
            instant = record["instant"]
            # Older releases did not record it, and completed a millisecond after the request.
            completion_time = record.get("completionTime") or format_time(
                parse_time(instant) + timedelta(milliseconds=1)
            )
            known = frozenset(record["known"])
            return cls(instant, completion_time, record["schema"], known, record["firstActive"], groups)


RESULT: Final = "result/0"
"""Name of the results of all new groups: whoever made their base files has nothing more to do."""


class ClusteringJournal(ServiceJournal[ClusteringPlan]):
    """Reads and writes the objects of a table's clusterings: `services/clustering/<n>/`."""

    SERVICE = "clustering"
    PLAN = ClusteringPlan


@dataclass(frozen=True, slots=True)
class ClusteringEnded:
    """A clustering that ended."""

    instant: str
    """Its request time."""
    end: End
    why: str
    new_groups: int = 0
    replaced: frozenset[Group] = frozenset()
    """The file groups that nobody reads any more."""
    kept: frozenset[Group] = frozenset()
    """Those of its plan that stay: they were written to meanwhile, or cannot be merged."""
