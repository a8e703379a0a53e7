"""Which files were taken, in which version: 28 bytes of memory for each, so that a listing of a million files can be
compared with them.

A file that is no longer listed is forgotten after a time, so the memory is that of the files that are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.stream.files.source_file import SourceFile

FORGOTTEN_DAYS: Final = 30
"""Days without a file in the listing after which it counts as new if it comes again."""
_KEY: Final = np.dtype("S16")
_EMPTY_KEYS: Final = np.zeros(0, _KEY)


class Seen:
    """Files by the digests of their names."""

    def __init__(
        self,
        keys: npt.NDArray[np.bytes_] = _EMPTY_KEYS,
        versions: npt.NDArray[np.uint64] | None = None,
        gone: npt.NDArray[np.uint32] | None = None,
    ) -> None:
        """`keys` in ascending order. `gone`: the day since which a file is not listed, 0 for one that is."""
        self._keys = keys
        self._versions = np.zeros(len(keys), np.uint64) if versions is None else versions
        self._gone = np.zeros(len(keys), np.uint32) if gone is None else gone
        self._recent: dict[bytes, int] = {}
        self._looked = 0
        """Day of the newest listing of this process."""

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)

    @property
    def recent(self) -> int:
        """Files since the last `folded`."""
        return len(self._recent)

    def add(self, root: str, files: Iterable[SourceFile]) -> None:
        """Files that a micro-batch took."""
        for file in files:
            self._recent[_key(root, file)] = _version(file)

    def look(self, root: str, files: Sequence[SourceFile]) -> Look:
        """Which files of a part of a listing are new or changed."""
        keys = [_key(root, file) for file in files]
        versions = np.fromiter(map(_version, files), np.uint64, len(files))
        wanted = np.array(keys, _KEY)
        places = np.searchsorted(self._keys, wanted)
        inside = np.minimum(places, max(len(self._keys) - 1, 0))
        known = (self._keys[inside] == wanted) if len(self._keys) else np.zeros(len(files), np.bool_)
        same = known & (self._versions[inside] == versions) if len(self._keys) else known
        new: list[SourceFile] = []
        changed: list[SourceFile] = []
        for at in np.flatnonzero(~same).tolist():
            recent = self._recent.get(keys[at])
            if recent is None:
                (changed if known[at] else new).append(files[at])
            elif recent != versions[at]:
                changed.append(files[at])
        recents = [at for at, key in enumerate(keys) if known[at] and key in self._recent] if self._recent else []
        changed_since = {files[at].path for at in recents if self._recent[keys[at]] != versions[at]}
        if changed_since:  # their version in the base is older than the one that was taken last
            changed = [file for file in changed if file.path not in changed_since]
            changed += [file for file in files if file.path in changed_since]
        return Look(new, changed, inside[known])

    def listed(self, present: Iterable[npt.NDArray[np.int64]], today: int) -> None:
        """A whole listing has ended. `present`: from its `Look`s. `today`: days since 1970."""
        is_there = np.zeros(len(self._keys), np.bool_)
        for places in present:
            is_there[places] = True
        self._gone[is_there] = 0
        self._gone[~is_there & (self._gone == 0)] = today
        self._looked = today

    def folded(self) -> Seen:
        """The same in one sorted array, without what a listing lacks long after another one did: a file may have come
        back since the last one, which may be months ago.
        """
        keep = (self._gone == 0) | (self._gone + FORGOTTEN_DAYS > self._looked)
        fresh = np.array(list(self._recent), _KEY)
        order = np.argsort(fresh, kind="stable")
        fresh, fresh_versions = fresh[order], np.fromiter(self._recent.values(), np.uint64, len(fresh))[order]
        if len(fresh) and len(self._keys):
            at = np.minimum(np.searchsorted(fresh, self._keys), len(fresh) - 1)
            keep &= fresh[at] != self._keys
        keys = np.concatenate((self._keys[keep], fresh))
        versions = np.concatenate((self._versions[keep], fresh_versions))
        gone = np.concatenate((self._gone[keep], np.zeros(len(fresh), np.uint32)))
        order = np.argsort(keys, kind="stable")
        folded = Seen(keys[order], versions[order], gone[order])
        folded._looked = self._looked
        return folded

    def to_bytes(self) -> bytes:
        """For storage; only what `folded` has made."""
        assert not self._recent, "folded first"
        raw = pa.py_buffer(self._keys.tobytes())
        columns = {
            "key": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(self._keys), [None, raw]),
            "version": pa.array(self._versions),
            "gone": pa.array(self._gone),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, content: bytes) -> Seen:
        """What `to_bytes` made."""
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all().combine_chunks()
        if not table.num_rows:
            return cls()
        keys = table["key"].chunk(0)
        raw = np.frombuffer(keys.buffers()[1], _KEY, len(keys), keys.offset * 16)
        return cls(raw, table["version"].to_numpy().astype(np.uint64), table["gone"].to_numpy().astype(np.uint32))


@dataclass(frozen=True, slots=True)
class Look:
    """What is new in a part of a listing."""

    new: list[SourceFile]
    changed: list[SourceFile]
    present: npt.NDArray[np.int64]
    """Places of the files that were known."""


def _key(root: str, file: SourceFile) -> bytes:
    return hashlib.blake2b(f"{root}/{file.path}".encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _version(file: SourceFile) -> int:
    return int.from_bytes(hashlib.blake2b(file.version.encode(), digest_size=8).digest(), "little")
