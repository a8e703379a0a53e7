"""What PostgreSQL did not send: Debezium writes a placeholder for a long (TOAST) value that an update left as it was.
It is no data, and never becomes any.

Its forms by type: text, bytes, arrays of them, of integers and of UUIDs, HSTORE, geometries; as
io.debezium.connector.postgresql.UnchangedToastedPlaceholder makes them of the connector's default
`unavailable.value.placeholder`.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from bucketingest.decode.json.doubts import UNREADABLE

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""As `hudi.merge.unavailable` has it for tables."""
_BYTES: Final = PLACEHOLDER.encode()
UUID_FORM: Final = str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3))
_GEOMETRIES: Final = (
    "0101000020E6100000000000FC83D797C1000000FC83D797C1",
    "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
)
_FORMS: Final[tuple[str | bytes, ...]] = (
    PLACEHOLDER,
    base64.b64encode(_BYTES).decode(),
    UUID_FORM,
    *(base64.b64encode(bytes.fromhex(each)).decode() for each in _GEOMETRIES),
    _BYTES,
    *map(bytes.fromhex, _GEOMETRIES),
)
_NUMBERS: Final = list(_BYTES)
_SEEN: Final = (
    *(f'"{each}"'.encode() for each in _FORMS if isinstance(each, str)),
    ",".join(map(str, _NUMBERS[:8])).encode(),
)
_SEEN_IN_TEXTS: Final[tuple[bytes, ...]] = (
    *{each.encode() if isinstance(each, str) else each for each in _FORMS},
    _SEEN[-1],
)
_SEEN_IN_COLUMNS: Final = (
    _BYTES,
    UUID_FORM.encode(),
    *map(bytes.fromhex, _GEOMETRIES),
    *(np.array(_NUMBERS[:8], kind).tobytes() for kind in (np.int32, np.int64)),
)
WHY: Final = (
    "field {}: the value was not sent, a TOAST value that the update left as it was: run ALTER TABLE ... REPLICA "
    "IDENTITY FULL at the source, and read the row again by an incremental snapshot"
)
WHY_NEW: Final = (
    "field {}: the value was not sent, a TOAST value of a row whose key changed, and no row of the new key has it: run "
    "ALTER TABLE ... REPLICA IDENTITY FULL at the source, and read the row again by an incremental snapshot"
)


def placeholders_in(images: pa.BinaryArray, columns: pa.Schema, keeps: Container[str] = ()) -> dict[int, str]:
    """The numbers of images in JSON that have a placeholder in a column, and each column's name. `keeps`: columns that
    may have it if they are of text.
    """
    kept = {each.name for each in columns if each.name in keeps and pa.types.is_string(each.type)}
    found: dict[int, str] = {}
    for number, image in enumerate(images.to_pylist()) if _has(images.buffers()[2], _SEEN) else ():
        if not any(each in image for each in _SEEN):
            continue
        try:
            row = msgspec.json.decode(image)
        except UNREADABLE:
            continue  # its decoder says why
        lacking = (each for each in columns.names if _is_placeholder(row.get(each)))
        wrong = (each for each in lacking if each not in kept or row[each] != PLACEHOLDER)
        name = next(wrong, None) if isinstance(row, dict) else None
        if name is not None:
            found[number] = name
    return found


def may_have_placeholders(rows: pa.RecordBatch) -> bool:
    """Whether rows that were read from JSON may have one: mostly not, and their texts are shorter than the images."""
    kinds = [column for column in rows.columns if not pa.types.is_primitive(column.type)]
    return any(pa.types.is_nested(each.type) or _has(each.buffers()[-1], _SEEN_IN_TEXTS) for each in kinds)


def placeholders_in_columns(columns: Mapping[str, pa.Array], keeps: Container[str] = ()) -> dict[int, str]:
    """The rows that have a placeholder in a column, and each column's name. `keeps`: as for `placeholders_in`."""
    found: dict[int, str] = {}
    for name, column in columns.items():
        if pa.types.is_primitive(column.type) or not any(_has(each, _SEEN_IN_COLUMNS) for each in column.buffers()):
            continue
        kept = PLACEHOLDER if name in keeps and pa.types.is_string(column.type) else None
        found_here = [value != kept and _is_placeholder(value) for value in column.to_pylist()]
        for number in np.flatnonzero(found_here).tolist():
            found.setdefault(number, name)
    return found


def _has(buffer: pa.Buffer | None, words: Iterable[bytes]) -> bool:
    """Whether a word is anywhere: most blocks have none."""
    data = b"" if buffer is None else buffer.to_pybytes()
    return any(each in data for each in words)


def _is_placeholder(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return value == _NUMBERS or any(map(_is_placeholder, value))
    if isinstance(value, dict):
        return any(map(_is_placeholder, value.values()))
    return value in _FORMS
