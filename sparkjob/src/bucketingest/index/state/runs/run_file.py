"""Runs: immutable files of sorted entries, named by the digest of their content and mapped into memory.

All numbers are little-endian::

    64 bytes    head: magic 8 | version u32 | 0 u32 | entries n u64 | bytes of the definitions u64 | table id 16 | zeros
    8 n bytes   hashes, ascending within each partition
    8 n bytes   check and group number of each entry
    JSON        definitions: for each partition, by ascending path, its generation, entries, and file ids of groups
    32 bytes    SHA-256 of everything before; as hexadecimal text it is the run's name
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import pathlib
import shutil
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Final, Self

import numpy as np
import numpy.typing as npt

from bucketingest.index.errors import StateDamaged, StateForeign, StateTooNew
from bucketingest.index.state.runs.entries import Entries

VERSION: Final = 1
TABLE_ID_BYTES: Final = 16
_MAGIC: Final = b"bkstate\n"
_HEAD: Final = struct.Struct("<8sIIQQ16s16x")
DIGEST_BYTES: Final = 32
_FENCE_ENTRIES: Final = 64


@dataclass(frozen=True, slots=True)
class RunSlice:
    """The entries of one partition in one run."""

    partition_path: str
    generation: int
    """Entries count only while the partition is of this generation."""
    groups: tuple[str, ...]
    """File ids by group number."""
    entries: Entries
    """Mapped, sorted by hash."""
    fences: npt.NDArray[np.uint64]
    """The last hash of each whole block of `block` entries."""
    block: int = _FENCE_ENTRIES

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class Run:
    """One run, mapped: its bytes are the page cache's, not the process's own."""

    digest: str
    slices: Mapping[str, RunSlice]
    """By partition path."""
    size: int
    """Bytes."""

    def __len__(self) -> int:
        return sum(len(each) for each in self.slices.values())

    @classmethod
    def open(cls, path: pathlib.Path, table_id: bytes, *, digest: str) -> Self:
        """Map the file and check every byte of it: a changed one could make a known key look new.

        Raises StateDamaged, StateForeign, StateTooNew.
        """
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < _HEAD.size + DIGEST_BYTES:
                raise StateDamaged(f"{path}: a run has at least {_HEAD.size + DIGEST_BYTES} bytes, this has {size}")
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        count, definition_bytes = _read_head(mapped, table_id, path)
        expected = _HEAD.size + 16 * count + definition_bytes + DIGEST_BYTES
        if size != expected:
            raise StateDamaged(f"{path}: {count} entries take {expected} bytes, but it has {size}")
        end = size - DIGEST_BYTES
        with memoryview(mapped) as view:
            found = hashlib.sha256(view[:end])
        if found.digest() != mapped[end:]:
            raise StateDamaged(f"{path}: its content has the SHA-256 {found.hexdigest()}, not that at its end")
        if found.hexdigest() != digest:
            raise StateDamaged(f"{path}: it is the run {found.hexdigest()}, under the name of {digest}")
        definitions = json.loads(mapped[end - definition_bytes : end])
        hashes = np.frombuffer(mapped, "<u8", count, _HEAD.size)
        pairs = np.frombuffer(mapped, "<u8", count, _HEAD.size + 8 * count)
        return cls(digest, _slices(definitions, hashes, pairs), size)


def _read_head(mapped: mmap.mmap, table_id: bytes, path: pathlib.Path) -> tuple[int, int]:
    magic, version, _, count, definition_bytes, found_id = _HEAD.unpack_from(mapped)
    if magic != _MAGIC:
        raise StateDamaged(f"{path}: it starts with {magic!r}, not as a run")
    if version > VERSION:
        raise StateTooNew(f"{path}: it has version {version}; this bucketingest reads versions up to {VERSION}")
    if found_id != table_id:
        raise StateForeign(f"{path}: it is a run of table {found_id.hex()}, not of table {table_id.hex()}")
    return count, definition_bytes


def _slices(
    definitions: Sequence[Mapping[str, Any]], hashes: npt.NDArray[np.uint64], pairs: npt.NDArray[np.uint64]
) -> dict[str, RunSlice]:
    slices, start = {}, 0
    for each in definitions:
        rows = slice(start, start + each["entries"])
        start = rows.stop
        entries = Entries(hashes[rows], pairs[rows])
        fences = np.ascontiguousarray(entries.hashes[_FENCE_ENTRIES - 1 :: _FENCE_ENTRIES])
        path = each["partition"]
        slices[path] = RunSlice(path, each["generation"], tuple(each["groups"]), entries, fences)
    return slices


@dataclass(slots=True)
class RunWriter:
    """Writes one run into a folder, entry by entry, in memory that does not grow with it. Use it as a context."""

    folder: pathlib.Path
    table_id: bytes
    count: int = 0
    """Entries so far."""
    _definitions: list[dict[str, Any]] = field(default_factory=list)
    _last: int = -1
    _hashes: IO[bytes] = field(init=False)
    _pairs: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._hashes = tempfile.NamedTemporaryFile(dir=self.folder, prefix=".run-", delete=False)  # noqa: SIM115
        self._pairs = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
        self._hashes.write(bytes(_HEAD.size))
        self._hashes.flush()  # numpy writes past Python's buffer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pairs.close()
        self._hashes.close()
        pathlib.Path(self._hashes.name).unlink(missing_ok=True)

    def start_slice(self, partition_path: str, generation: int, groups: Sequence[str]) -> None:
        """The next entries are this partition's. Partitions come in ascending order of their paths."""
        if self._definitions and self._definitions[-1]["partition"] >= partition_path:
            raise ValueError(f"partition {partition_path!r} comes after {self._definitions[-1]['partition']!r}")
        self._definitions.append(
            {"partition": partition_path, "generation": generation, "entries": 0, "groups": list(groups)}
        )
        self._last = -1

    def add(self, entries: Entries) -> None:
        """Entries of the current partition, sorted, after those before."""
        if not len(entries):
            return
        if int(entries.hashes[0]) < self._last or (entries.hashes[1:] < entries.hashes[:-1]).any():
            raise ValueError("the entries of a run must be sorted")
        self._last = int(entries.hashes[-1])
        np.ascontiguousarray(entries.hashes, "<u8").tofile(self._hashes)
        np.ascontiguousarray(entries.pairs, "<u8").tofile(self._pairs)
        self.count += len(entries)
        self._definitions[-1]["entries"] += len(entries)

    def finish(self) -> tuple[str, pathlib.Path]:
        """The run's digest, and its file: in the folder, under that name."""
        self._pairs.seek(0)
        self._hashes.seek(0, 2)
        shutil.copyfileobj(self._pairs, self._hashes, 1 << 20)
        definitions = json.dumps(self._definitions, ensure_ascii=True, separators=(",", ":")).encode()
        self._hashes.write(definitions)
        self._hashes.seek(0)
        self._hashes.write(_HEAD.pack(_MAGIC, VERSION, 0, self.count, len(definitions), self.table_id))
        self._hashes.flush()
        with pathlib.Path(self._hashes.name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        self._hashes.seek(0, 2)
        self._hashes.write(digest.digest())
        self._hashes.flush()
        path = self.folder / digest.hexdigest()
        os.replace(self._hashes.name, path)  # noqa: PTH105 - the name is text
        return digest.hexdigest(), path
