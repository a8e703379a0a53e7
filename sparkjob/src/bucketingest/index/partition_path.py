"""Makes Hudi's partition paths from Arrow columns, and marks values that must never become a directory.

Seen in tables written by Hudi 1.2.0: null and "" become `__HIVE_DEFAULT_PARTITION__`, nothing is URL-encoded, a `/`
inside a value makes a further level, hive style is `field=value`, and the path of a non-partitioned table is "".

Hudi's Spark reader takes values from paths, and shows some others than were written: these are refused. Its option
hoodie.datasource.write.partitionpath.urlencode does not help: incremental queries then show the encoded text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.naming import BaseFileName, deterministic_file_id
from bucketingest.hudi.rollback.markers import marker_path
from bucketingest.index.errors import InvalidKeyRule, UnsupportedKeyType
from bucketingest.index.text import check_key_column, column_text
from bucketingest.storage import UNBOUNDED, PathRoom

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
MAX_PATH_BYTES: Final = 1024
# The longest path in a partition is the marker of a file in it. Names from Hudi's compactor are longer than those of
# log files, and grow with the number of its tasks.
_LONGEST_NAME: Final = str(BaseFileName(deterministic_file_id(0), "0" * 17, write_token="99999-99999-99999"))  # noqa: S106
_AROUND_BYTES: Final = len(marker_path("0" * 17, "p", _LONGEST_NAME)) - len("p")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What Python makes of bytes that are not UTF-8 (surrogateescape), which Spark's strings can hold.
_NOT_TEXT: Final = re.compile(r"[\udc80-\udcff]")
# What Hudi's Spark reader decodes in a path, always.
_DECODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class PartitionPaths:
    """The partition paths of a batch of n rows."""

    paths: pa.Array
    """pa.DictionaryArray[n] (int32 indices without nulls, string values). A path is there once, and once more for each
    reason to refuse rows that would have it.
    """
    refused: pa.Array | None
    """pa.BooleanArray[n], true where the path must not be written; None when every path may be."""
    reasons: tuple[str | None, ...]
    """Per value of the dictionary: why it is refused, or None."""

    def reason_of_row(self, row: int) -> str | None:
        """Why this row is refused, or None."""
        return self.reasons[self.paths.indices[row].as_py()]


@dataclass(frozen=True, slots=True)
class PartitionPathRule:
    """How a table's partition paths are made; no fields for a non-partitioned table."""

    fields: tuple[str, ...]
    hive_style: bool = False
    levels: int | None = None
    """Levels of each path; None for one per field. A value may have slashes, but not one `a` and another `a/b`: readers
    would miss rows of either.
    """

    def __post_init__(self) -> None:
        if len(set(self.fields)) != len(self.fields):
            raise InvalidKeyRule(f"partition fields {list(self.fields)} name a column twice")

    def check(self, schema: pa.Schema) -> None:
        """Plan-time check; raises MissingKeyColumn or UnsupportedKeyType naming the column."""
        for name in self.fields:
            kind = check_key_column(schema, name)
            if pa.types.is_timestamp(kind):
                raise UnsupportedKeyType(
                    f"partition column {name!r} is a TIMESTAMP: Hudi's Spark reader would show null for each of its "
                    f"values; partition by a DATE, or by text, which spec.transform.sql makes: date({name}) AS day"
                )

    def paths(self, batch: pa.RecordBatch, room: PathRoom = UNBOUNDED) -> PartitionPaths:
        """The paths of a batch: values repeat, so text is made only of the distinct ones. `room`: the path lengths that
        the table's storage allows.
        """
        self.check(batch.schema)
        codes = np.zeros(batch.num_rows, np.int64)
        distinct: list[_Path] = [_Path("")]
        for level, name in enumerate(self.fields):
            codes, distinct = self._with_level(level, name, batch.column(name), codes, distinct)
        reasons = tuple(each.reason or self._refusal(each.text, room) for each in distinct) if self.fields else (None,)
        indices = pa.array(codes.astype(np.int32))
        dictionary = pa.array([_storable(path.text) for path in distinct], pa.string())
        return PartitionPaths(
            paths=pa.DictionaryArray.from_arrays(indices, dictionary),
            refused=pa.array(np.array([bool(reason) for reason in reasons])[codes]) if any(reasons) else None,
            reasons=reasons,
        )

    def _with_level(
        self, level: int, name: str, values: pa.Array, codes: np.ndarray, distinct: Sequence[_Path]
    ) -> tuple[np.ndarray, list[_Path]]:
        """Paths so far (by code) with one more field: new codes per row, and the path of each code."""
        values_of_level, texts = _distinct_texts(values)
        levels = [self._level(text) for text in texts]
        combined = pa.array(codes * len(levels) + values_of_level).dictionary_encode()
        prefix = f"{'/' if level else ''}{f'{name}=' if self.hive_style else ''}"
        paths = []
        for code in combined.dictionary.to_pylist():
            before, last = distinct[code // len(levels)], levels[code % len(levels)]
            paths.append(_Path(f"{before.text}{prefix}{last.text}", before.reason or last.reason))
        # Two combinations can make one path ("a/b" + "c", "a" + "b/c"), and a path must have one code.
        order = {path: code for code, path in enumerate(dict.fromkeys(paths))}
        recode = np.array([order[path] for path in paths], np.int64)
        return recode[combined.indices.to_numpy()], list(order)

    def _level(self, text: str | None) -> _Path:
        """A value as a part of a path, and why no reader would give it back, if so."""
        if text is None:
            return _Path(DEFAULT_PARTITION)
        shown = f"partition value {_short(text)!r}"
        if text in {"", DEFAULT_PARTITION}:
            return _Path(DEFAULT_PARTITION, f"{shown}: Hudi's Spark reader would show null; {_WAY_OUT}")
        if _DECODED.search(text):
            return _Path(text, f"{shown}: Hudi's Spark reader would decode what follows %; {_WAY_OUT}")
        if "=" in text and not self.hive_style:
            return _Path(text, f"{shown}: Hudi's Spark reader would show what follows =; {_WAY_OUT}")
        return _Path(text)

    def _refusal(self, path: str, room: PathRoom) -> str | None:
        levels = self.levels or len(self.fields)
        if (why := refusal(path, room)) is None and path.count("/") + 1 != levels:
            return f"partition path {_short(path)!r} has not {levels} levels: readers would miss rows; {_WAY_OUT}"
        return why


class _Path(NamedTuple):
    text: str
    reason: str | None = None
    """Why it must not be written."""


_WAY_OUT: Final = "replace it in spec.transform.sql"


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def refusal(path: str, room: PathRoom = UNBOUNDED) -> str | None:
    """Why a partition path must not be written, or None: it is outside the table, among Hudi's own files, unreadable,
    or too long for the table's storage.
    """
    shown = _short(path)
    if _NOT_TEXT.search(path):
        return f"partition path {shown!r} is not valid UTF-8"
    size = len(path.encode())
    if size > MAX_PATH_BYTES:
        return f"partition path {shown!r} has more than {MAX_PATH_BYTES} bytes"
    if room.path is not None and size > (bytes_max := room.path - _AROUND_BYTES):
        return (
            f"partition path {shown!r} has {size} bytes, the table's storage allows {bytes_max}: the table's root and "
            "the names of files and their markers need the rest of its longest path"
        )
    if _CONTROL.search(path):
        return f"partition path {shown!r} holds a control character"
    if ":" in path:
        # Seen with Hudi 1.2.0: its Spark reader fails on the whole table (URISyntaxException), and its
        # writer cannot write it.
        return f"partition path {shown!r} holds a colon: Hudi's Spark reader cannot read a table with it; {_WAY_OUT}"
    if path.startswith("/"):
        return f"partition path {shown!r} is absolute"
    for segment in path.split("/"):
        if not segment:
            return f"partition path {shown!r} has an empty level"
        if room.level is not None and len(segment.encode()) > room.level:
            return f"partition path {shown!r} has a level of more than {room.level} bytes, the file system's limit"
        if segment in {".", ".."}:
            return f"partition path {shown!r} holds the level {segment!r}"
        if segment.startswith(".hoodie"):
            return f"partition path {shown!r} holds the level {segment!r}: names with .hoodie are Hudi's own"
    return None


def _distinct_texts(values: pa.Array) -> tuple[np.ndarray, list[str | None]]:
    """A code per row (int64[n]) and the text of each code; null is the last one."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode("encode")
    texts = column_text(encoded.dictionary).cast(pa.binary()).to_pylist()
    # A dictionary that came with the data may hold nulls itself, and rows may be null as well: one more code is for
    # these.
    codes = pc.fill_null(pc.cast(encoded.indices, pa.int64()), len(texts)).to_numpy(zero_copy_only=False)
    return codes, [None if text is None else text.decode("utf-8", "surrogateescape") for text in [*texts, None]]


def _storable(path: str) -> str:
    """A path that is not text is refused anyway, but the dictionary must hold text."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
