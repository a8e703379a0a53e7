"""Log files in storage: small ones are read at once, large ones block by block, as they may exceed the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

from bucketingest.hudi.log.format import HEAD_BYTES, LogBlock, block_bytes, read_blocks
from bucketingest.storage.interface import Storage

WHOLE_FILE_BYTES: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One log file, `size` in bytes. Build it with `open`."""

    storage: Storage
    path: str
    size: int

    @classmethod
    def open(cls, storage: Storage, path: str) -> Self:
        """Raises NotFound."""
        return cls(storage, path, storage.head(path).size)

    def blocks(self, whole_file_bytes: int = WHOLE_FILE_BYTES) -> Iterator[LogBlock]:
        """Its blocks in order; a file of more bytes is read block by block. Raises CorruptLog."""
        source = f"{self.storage.url}/{self.path}"
        if self.size <= whole_file_bytes:
            yield from read_blocks(self.storage.get(self.path), source=source)
            return
        offset = 0
        while offset < self.size:
            head = self.storage.get_range(self.path, offset, min(HEAD_BYTES, self.size - offset))
            length = block_bytes(head, source=f"{source}, byte {offset}")
            data = self.storage.get_range(self.path, offset, min(length, self.size - offset))
            for block in read_blocks(data, source=f"{source} from byte {offset}"):
                yield replace(block, offset=offset)
            offset += length
