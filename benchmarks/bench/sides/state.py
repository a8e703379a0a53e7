"""The state of an index without buckets, measured: a process on one core that loads keys and looks them up."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.sides.process_tree import anonymous_bytes
from bench.sides.protocol import Answer, serve, stay_on_core
from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.naming import BaseFileName
from bucketingest.hudi.table.file_view import DataFile, FileSlice
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.index.state.hashing import KeyHasher
from bucketingest.index.state.loading import Loader
from bucketingest.index.state.runs.entries import Entries, one_for_each_key
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.merging import RunMerger
from bucketingest.index.state.runs.run_file import Run, RunWriter
from bucketingest.storage import open_storage

_TABLE_ID: Final = bytes(16)
_HASHER: Final = KeyHasher(bytes(range(32)))
_PARTITION: Final = "p"
_GROUPS: Final = 1000
_PART: Final = 1_000_000
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGITS: Final = np.array([place for place in range(36) if place not in {8, 13, 18, 23}])


class State:
    """The operations."""

    def __init__(self) -> None:
        self._look_up: PartitionLookUp | None = None

    def make_run(self, folder: str, keys: int) -> Answer:
        """A run with the keys 0 to `keys` - 1, each in the file group of its number."""
        place = Path(folder)
        runs = []
        for numbers in _parts(keys):
            with RunWriter(place, _TABLE_ID) as writer:
                writer.start_slice(_PARTITION, 0, [f"group-{number}" for number in range(_GROUPS)])
                writer.add(one_for_each_key(Entries.of(_HASHER.hash(uuids(numbers)), numbers % _GROUPS))[0])
                digest, file = writer.finish()
            runs.append(Run.open(file, _TABLE_ID, digest=digest))
        ((digest, file),) = RunMerger(place, _TABLE_ID).merge(runs)
        for run in runs:
            if run.digest != digest:
                (place / run.digest).unlink()
        return {"digest": digest, "size": file.stat().st_size}

    def open_cold(self, folder: str, digest: str) -> Answer:
        """Map and check a run that is not in the page cache."""
        path = Path(folder) / digest
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started, cpu = time.monotonic(), time.process_time()
        run = Run.open(path, _TABLE_ID, digest=digest)
        self._look_up = PartitionLookUp.of([run.slices[_PARTITION]])
        return {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}

    def look_up(self, keys: int, rows: int, seed: int) -> Answer:
        """Hash and look up `rows` random keys, every second of which is known; the answers are checked."""
        assert self._look_up is not None
        numbers = np.random.default_rng(seed).integers(0, 2 * keys, rows)
        texts = uuids(numbers)
        started, cpu = time.monotonic(), time.process_time()
        found = self._look_up.find(_HASHER.hash(texts))
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu
        named = np.array([int(group.removeprefix("group-")) for group in self._look_up.groups], np.int64)
        expected = np.where(numbers < keys, numbers % _GROUPS, UNKNOWN)
        assert (np.where(found == UNKNOWN, UNKNOWN, named[found]) == expected).all(), "a key was not found, or wrongly"
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "private_bytes": anonymous_bytes(os.getpid())}

    def make_base_files(self, folder: str, keys: int, files: int) -> Answer:
        """A partition with the keys in so many base files."""
        place = Path(folder) / _PARTITION
        place.mkdir(parents=True)
        schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), pa.field("value", pa.int64())])
        names = []
        for number in range(files):
            name = BaseFileName(f"{number:08d}-0000-0000-0000-000000000000-0", "20260101000000000")
            with BaseFileWriter(place / str(name), schema, str(name), row_group_rows=512 * 1024) as writer:
                for numbers in _parts(keys // files):
                    texts = uuids(numbers + number * (keys // files))
                    columns = dict.fromkeys(META_COLUMNS, texts) | {"value": pa.array(numbers)}
                    writer.write(pa.table(columns, schema=schema))
                writer.finish({})
            names.append(str(name))
        return {"names": names}

    def load(self, folder: str, names: list[str]) -> Answer:
        """Load all keys of these base files into a run, and delete it."""
        slices = {}
        for text in names:
            name = BaseFileName.parse(text)
            slices[name.file_id] = FileSlice(name.instant, DataFile(f"{_PARTITION}/{text}", 0, name), ())
        runs = Path(folder) / "runs"
        runs.mkdir()
        started, cpu = time.monotonic(), time.process_time()
        loaded = Loader(open_storage(folder), _HASHER, _TABLE_ID, runs).load(_PARTITION, 0, slices)
        answer = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}
        shutil.rmtree(runs)
        return {**answer, "rows": loaded.entries, "private_bytes": anonymous_bytes(os.getpid())}


def uuids(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Texts with the form of random UUIDs, one for each number and different for different ones."""
    halves = np.stack([_mixed(numbers.astype(np.uint64)), _mixed(~numbers.astype(np.uint64))], axis=1)
    raw = np.ascontiguousarray(halves).view(np.uint8)
    text = np.full((len(numbers), 36), ord("-"), np.uint8)
    text[:, _DIGITS[0::2]] = _HEX[raw >> 4]
    text[:, _DIGITS[1::2]] = _HEX[raw & 15]
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(36)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(text))


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's output function: a bijection."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _parts(keys: int) -> Iterator[npt.NDArray[np.int64]]:
    for first in range(0, keys, _PART):
        yield np.arange(first, min(first + _PART, keys), dtype=np.int64)


if __name__ == "__main__":
    stay_on_core(sys.argv[1])
    serve(State)
