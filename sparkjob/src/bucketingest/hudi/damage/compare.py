"""Compares the data files that commits name with those that are there. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bucketingest.hudi.naming import BaseFileName, parse_data_file_name, split
from bucketingest.hudi.table.file_view import FileView, Group


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file as a completed commit names it."""

    path: str
    """Relative to the table's root."""
    size: int
    """Bytes; 0: the commit does not say."""
    rows: int
    """Rows and deletes that the commit wrote into it."""
    instant: str
    """Request time of the commit."""
    completion_time: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file of a file group's newest slice that is gone, or shorter than its commit says."""

    file: NamedFile
    file_id: str
    found: int | None
    """Bytes that are there; None: the file is gone."""

    @property
    def group(self) -> Group:
        """Partition path and file id."""
        return split(self.file.path)[0], self.file_id

    @property
    def problem(self) -> str:
        """What is wrong, and how many rows are at stake, in words."""
        file = self.file
        how = "it is gone" if self.found is None else f"it has {self.found:,} of {file.size:,} bytes"
        return f"{how}; its commit wrote {file.rows:,} rows into it"


class Comparison:
    """Commits are compared with a view of the table, one after the other, in any order."""

    def __init__(self, view: FileView, replaced: Iterable[Group] = (), only: Iterable[Group] | None = None) -> None:
        """`replaced`: file groups that nobody reads. `only`: the groups that are compared; None: all."""
        self._view = view
        self._replaced = frozenset(replaced)
        self._only = None if only is None else frozenset(only)
        self._sizes: dict[Group, Mapping[str, int]] = {}
        self._named_bases: defaultdict[Group, set[str]] = defaultdict(set)
        self._incomplete: dict[str, Damaged] = {}

    def add(self, commit: Iterable[NamedFile]) -> None:
        """Compare the files of a commit."""
        for file in commit:
            partition_path, base_name = split(file.path)
            name = parse_data_file_name(base_name)
            if name is None:
                continue
            group = partition_path, name.file_id
            if group in self._replaced or (self._only is not None and group not in self._only):
                continue
            if isinstance(name, BaseFileName):
                self._named_bases[group].add(name.instant)
            found = self._sizes_of(group).get(file.path)
            if found is None or found < file.size:
                self._incomplete[file.path] = Damaged(file, name.file_id, found)

    def damaged(self) -> tuple[Damaged, ...]:
        """What is wrong by the commits so far, by path. Not in older slices: cleans delete their files."""
        return tuple(self._incomplete[path] for path in sorted(self._incomplete) if self._is_newest(path))

    def _is_newest(self, path: str) -> bool:
        """Whether the file belongs to the newest slice of its group; by the rule of `build_file_view`."""
        damaged = self._incomplete[path]
        bases = sorted({*self._named_bases[damaged.group], *self._listed_bases(damaged.group)})
        if not bases:
            return True
        name = parse_data_file_name(split(path)[1])
        if isinstance(name, BaseFileName):
            return name.instant == bases[-1]
        return bisect_right(bases, damaged.file.completion_time) == len(bases)

    def _listed_bases(self, group: Group) -> Iterator[str]:
        found = self._view.partitions.get(group[0], {}).get(group[1])
        slices = () if found is None else found.slices
        return (each.base_file.instant for each in slices if each.base_file is not None)

    def _sizes_of(self, group: Group) -> Mapping[str, int]:
        if group not in self._sizes:
            found = self._view.partitions.get(group[0], {}).get(group[1])
            files = () if found is None else (*found.uncommitted, *(f for each in found.slices for f in each.files))
            self._sizes[group] = {file.path: file.size for file in files}
        return self._sizes[group]
