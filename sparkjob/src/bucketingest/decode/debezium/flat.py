"""Rows without an envelope, as Debezium's transformation ExtractNewRecordState leaves them: a message is the row after
a change. A delete is a message without a value, a row whose member `__deleted` is "true", or both.

A truncate is dropped by the transformation, or comes as the whole event (with `rewrite-with-tombstone`).
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.debezium.events import (
    DELETED,
    HEARTBEAT,
    NO_ROW,
    NOTHING,
    TRUNCATED,
    EventRules,
    Images,
    Parsed,
    SourceTruncated,
    table_of,
    take_key,
    together,
    truncated,
)
from bucketingest.decode.debezium.heads import Messages
from bucketingest.decode.debezium.usual import begins, text_of
from bucketingest.decode.json.doubts import UNREADABLE, why_unreadable
from bucketingest.decode.rows import Refused

_ENVELOPE: Final = {"before", "after", "source", "op"}
_HEARTBEAT_BYTES: Final = 64
_TRUE: Final = (b"true", b'"true"')
_WITH_SCHEMA: Final = {"schema", "payload"}

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def flat_images_of(messages: Messages, keys: pa.BinaryArray, rules: EventRules, *, parse: bool = False) -> Images:
    """As `images_of`, of flat rows. Raises SourceTruncated."""
    texts = messages.texts
    plain = np.zeros(len(texts), np.bool_)
    if not parse:
        plain = begins(texts, b"{") & (messages.has_head if messages.head else ~begins(texts, b'{"schema"'))
        plain[plain] = _is_plain(texts.filter(pa.array(plain)))
    numbers = np.flatnonzero(plain)
    seen = NOTHING if messages.schema == b"null" else messages.schema
    deletes = np.zeros(len(numbers), np.bool_)
    cut = Images(numbers, texts.filter(pa.array(plain)), deletes, {seen: numbers}, [], are_parsed=False)
    return together(cut, _parsed(messages, keys, np.flatnonzero(~plain), rules))


def _is_plain(rows: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which rows surely are upserts; of others their members say it. In most blocks no word has to be looked for row by
    row.
    """
    text, offsets = text_of(rows)
    data = text.to_pybytes()
    plain = np.ones(len(rows), np.bool_)
    mark = b'"%s"' % DELETED.encode()
    if data.count(mark) != data.count(mark + b':"false"'):
        plain &= ~_has(rows, mark)
    if b'"op":"' in data and b'"after":' in data:
        plain &= ~_has(rows, b'"op":"')
    if (short := np.diff(offsets) < _HEARTBEAT_BYTES).any():
        plain &= ~(short & _has(rows, b'"ts_ms"'))
    return plain


def _has(rows: pa.BinaryArray, word: bytes) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.match_substring(rows, word).to_numpy(zero_copy_only=False)
    return found


def _parsed(messages: Messages, keys: pa.BinaryArray, numbers: npt.NDArray[np.int64], rules: EventRules) -> Parsed:
    """The rows of these messages."""
    found = Parsed()
    for number, message in zip(numbers.tolist(), messages.whole(numbers), strict=True):
        try:
            why = _take(message, keys[number].as_py(), number, rules, found)
        except UNREADABLE as error:
            why = why_unreadable(error, message or b"")
        if why is not None:
            found.refused.append(Refused(number, why))
    return found


def _take(message: bytes | None, key: bytes | None, number: int, rules: EventRules, found: Parsed) -> str | None:
    """Add the message's row or its key; or why there is none. Raises UNREADABLE, SourceTruncated."""
    row, schema = message, NOTHING
    members = {} if message is None else _members(message)
    if set(members) == _WITH_SCHEMA:
        row, schema = bytes(members["payload"]), bytes(members["schema"])
        row, schema = (None if row == b"null" else row), (NOTHING if schema == b"null" else schema)
        members = {} if row is None else _members(row)
    if row is None:
        return None if take_key(key, schema, number, found) else "a message without a value whose key is no JSON object"
    if set(members) == HEARTBEAT:
        return None
    if set(members) >= _ENVELOPE:
        if bytes(members["op"]) != b'"t"':
            return NO_ROW
        if rules.stops:
            raise SourceTruncated(truncated(table_of(row)))
        return TRUNCATED
    is_deleted = bytes(members.get(DELETED, NOTHING)) in _TRUE
    if not is_deleted or not take_key(key, schema, number, found):
        found.add(number, row, schema, deletes=is_deleted)
    return None
