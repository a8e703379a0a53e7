"""Which compression a file has: its name says it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from bucketingest.decode.files.parts import BadFile

_CODECS: Final = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_OTHERS: Final = (".snappy", ".deflate", ".xz", ".zip", ".br", ".lzo", ".z")
"""Endings of compressions that are not read: the bytes would look like rows that are no rows."""


def is_compressed(path: str) -> bool:
    """Whether the name says so: the file can then be read from its start only."""
    return _codec(path) is not None


def decompressed(file: pa.NativeFile, path: str) -> pa.NativeFile:
    """The file's content. Raises BadFile for a compression that is not read."""
    codec = _codec(path)
    if codec is not None:
        return pa.CompressedInputStream(file, codec)
    ending = next((each for each in _OTHERS if path.lower().endswith(each)), None)
    if ending is not None:
        raise BadFile(f"files with the ending {ending} are not read; compress it as .gz, .zst, .bz2 or .lz4")
    return file


def _codec(path: str) -> str | None:
    return next((codec for ending, codec in _CODECS.items() if path.lower().endswith(ending)), None)
