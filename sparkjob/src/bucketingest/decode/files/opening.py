"""Which compression a file has: its name says it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from bucketingest.decode.files.parts import BadFile

_CODECS: Final = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_OTHERS: Final = (
    *(".snappy", ".deflate", ".xz", ".lzma", ".zip", ".br", ".lzo", ".z", ".7z", ".rar"),
    *(".tar", ".tgz", ".tbz2", ".tzst", *(f".tar{each}" for each in _CODECS)),
)
"""Endings of compressions and archives that are not read: the bytes would look like rows that are no rows."""
_HEADS: Final = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh91AY&SY": ".bz2", b"\x04\x22\x4d\x18": ".lz4"}
"""How compressed content begins, and no text."""


def is_compressed(path: str) -> bool:
    """Whether the name says so: the file can then be read from its start only."""
    return _codec(path) is not None


def decompressed(file: pa.NativeFile, path: str) -> pa.NativeFile:
    """The file's content. Raises BadFile for a compression that is not read."""
    ending = next((each for each in _OTHERS if path.lower().endswith(each)), None)
    if ending is not None:
        raise BadFile(f"files with the ending {ending} are not read; compress it as .gz, .zst, .bz2 or .lz4")
    codec = _codec(path)
    return file if codec is None else pa.CompressedInputStream(file, codec)


def check_text(head: bytes) -> None:
    """Raises BadFile if a text begins as compressed content does: its lines would be as many records that are none."""
    ending = next((ending for start, ending in _HEADS.items() if head.startswith(start)), None)
    if ending is not None:
        raise BadFile(f"is compressed, and its name does not say so: write it with the ending {ending}")


def _codec(path: str) -> str | None:
    return next((codec for ending, codec in _CODECS.items() if path.lower().endswith(ending)), None)
