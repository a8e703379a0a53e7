"""Data files by their names, because in Hudi a file's name alone says what it belongs to."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_LOG: Final = re.compile(r"(?:(.*)/)?\.([^._/]+)_(\d{17})\.log\.(\d+)_(\d+-\d+-\d+)")
_BASE: Final = re.compile(r"(?:(.*)/)?([a-zA-Z0-9-]+)_(\d+-\d+-\d+)_(\d{17})\.parquet")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A log or base file."""

    path: str
    partition: str
    file_id: str
    instant: str
    version: int
    """0: a base file."""
    token: str

    @property
    def is_base(self) -> bool:
        """Whether it holds rows only, those of a whole file slice."""
        return not self.version

    @property
    def group(self) -> tuple[str, str]:
        """Partition and file id."""
        return self.partition, self.file_id

    @property
    def name(self) -> str:
        """Without the directory."""
        return self.path.rpartition("/")[2]

    @property
    def order(self) -> tuple[str, int, str]:
        """By which readers merge the logs of a slice (Hudi 1.2.0: LogFileComparator)."""
        return self.instant, self.version, self.token


@functools.lru_cache(maxsize=2**14)
def data_file(path: str) -> DataFile | None:
    """The data file of this name; None for anything else."""
    if path.startswith(".hoodie/"):
        return None
    if match := _LOG.fullmatch(path):
        return DataFile(path, match[1] or "", match[2], match[3], int(match[4]), match[5])
    if match := _BASE.fullmatch(path):
        return DataFile(path, match[1] or "", match[2], match[4], 0, match[3])
    return None


def named_files(commit: Mapping[str, Any]) -> list[str]:
    """Paths of the files that a commit wrote, by its metadata."""
    stats = (commit["partitionToWriteStats"] or {}).values()
    return [stat["path"] for of_partition in stats for stat in of_partition]


def inputs_of(plan: Mapping[str, Any]) -> set[str]:
    """Paths of the files that a compaction reads, by its plan."""
    return {
        f"{each['partitionPath']}/{name}"
        for each in plan.get("operations") or ()
        for name in (each["dataFilePath"], *each["deltaFilePaths"])
        if name is not None
    }
