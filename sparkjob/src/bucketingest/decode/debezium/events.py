"""What each message of a topic of Debezium's is: an image of a row to keep, one to delete, nothing, or no event at all.

Field names and operations as io.debezium.data.Envelope has them. No value of a row is looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.debezium.heads import Messages
from bucketingest.decode.debezium.usual import Found, Places, Usual, slices, text_of
from bucketingest.decode.json.doubts import UNREADABLE, why_unreadable
from bucketingest.decode.rows import Refused
from bucketingest.errors import BucketIngestError

DELETED: Final = "__deleted"
"""The last column of the rows, BOOLEAN: whether the row is to be deleted. No column of the table."""
NOTHING: Final = b""
_NULL: Final = b"null"
_ABSENT: Final = (NOTHING, _NULL)
_UPSERTS: Final = frozenset("cru")
_INSERTS: Final = frozenset("cr")
_LOOKED_AT: Final = 8
"""Messages of a block."""
_OTHER_MESSAGES: Final = ({"status", "id", "event_count"}, {"ddl", "databaseName"})
"""Members of transaction markers and of schema changes; a heartbeat has nothing but `ts_ms`."""
HEARTBEAT: Final = {"ts_ms"}
NO_ROW: Final = "an event with before and after, and no flat row: set format.envelope.type to debezium"
NO_EVENT: Final = (
    "no change event of Debezium: it has no op; for flat rows, as of ExtractNewRecordState, set format.envelope.type "
    "to debeziumFlat"
)
_NOT_FULL: Final = (
    "format.envelope.before is full, but {}: give the source's table REPLICA IDENTITY FULL, or set table.index.global, "
    "or partition by columns of the key"
)
TRUNCATED: Final = "the source's table was truncated: rows that came before are still in the table here"
_LACKS_KEY: Final = (
    "a delete whose key has no {}, a column of table.recordKey, so the row is not found: name in recordKey only "
    "columns of the topic's keys, or let Debezium's message.key.columns put it there"
)
ONLY_KEY: Final = _NOT_FULL.format("the before of a delete has nothing but the key")
_EMPTY: Final[tuple[object, ...]] = (None, "", 0, "0", "AA==", "{}", "[]", [], b"", b"\0")
_ZERO_TIMES: Final = ("1970-01-01", "00:00:00")


class SourceTruncated(BucketIngestError):
    """The source's table was truncated, and the resource does not say that its rows may stay."""


class TruncatedAt(BucketIngestError):
    """The source's table was truncated by the message with this offset, and so are the rows that came before."""

    def __init__(self, offset: int) -> None:
        super().__init__(str(offset))
        self.offset = offset


class _Event(msgspec.Struct, gc=False):
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()
    schema: msgspec.Raw = msgspec.Raw()
    payload: _Event | msgspec.UnsetType | None = msgspec.UNSET


class _Key(msgspec.Struct, gc=False):
    schema: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_key: Final = msgspec.json.Decoder(_Key).decode


@dataclass(frozen=True, slots=True)
class EventRules:
    """What the resource says of the events."""

    full: bool
    """Each `before` is complete. So an update also deletes the row as it was, which may be in another partition."""
    stops: bool
    """A truncate ends the query; else it is among the refused messages."""
    key: tuple[str, ...] = ()
    """Columns of the record key, which each delete has."""
    flat: bool = False
    """Messages are the rows alone, see `flat`."""
    keeps: frozenset[str] = frozenset()
    """Columns that may have the placeholder of a value that was not sent."""
    unused: frozenset[str] = frozenset()
    """Columns that nobody looks at: what they have does not matter."""


@dataclass(slots=True)
class Parsed:
    """Images of messages that were parsed one by one, in their order; one message may have two."""

    numbers: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    deletes: list[bool] = field(default_factory=list)
    schemas: list[bytes] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def add(self, number: int, image: bytes, schema: bytes, *, deletes: bool) -> None:
        """Add the next one."""
        self.numbers.append(number)
        self.texts.append(image)
        self.deletes.append(deletes)
        self.schemas.append(schema)


@dataclass(frozen=True, slots=True)
class Images:
    """Images of rows in the order of their messages; one message may have two."""

    numbers: npt.NDArray[np.int64]
    """Of the message, in the block."""
    texts: pa.BinaryArray
    """Each as JSON."""
    deletes: npt.NDArray[np.bool_]
    schemas: dict[bytes, npt.NDArray[np.int64]]
    """What messages say of their types, as JSON, `NOTHING` if they say nothing; and the places of the images of each.
    """
    refused: list[Refused]
    are_parsed: bool
    """Each message was parsed as a whole; else an image that is no object may be cut out of one that is."""


def images_of(messages: Messages, keys: pa.BinaryArray, rules: EventRules, *, parse: bool = False) -> Images:
    """The images of the messages. What a delete deletes is said by its key, unless each `before` is complete: its other
    columns may have values that are made up. `parse`: all of each message, see `usual`.

    A message without a value deletes its key too: where a topic is compacted nothing else is left of a delete. Behind
    its delete it is nothing, and if a delete needs more than the key. Raises SourceTruncated.
    """
    texts = messages.texts
    data, offsets = text_of(texts)
    numbers = starts = ends = np.zeros(0, np.int64)
    deletes = np.zeros(0, np.bool_)
    # With a head, what has none is of another kind.
    alike = messages.has_head if messages.head else np.ones(len(texts), np.bool_)
    if not parse and (usual := _usual(texts.filter(pa.array(alike)))) is not None:
        numbers, starts, ends, deletes = _wanted(usual.find(texts, data, offsets, alike), rules)
    is_found = np.zeros(len(texts), np.bool_)
    is_found[numbers] = True
    found = _parsed(messages, keys, np.flatnonzero(~is_found), rules)
    seen = NOTHING if messages.schema == _NULL else messages.schema
    return together(Images(numbers, slices(data, starts, ends), deletes, {seen: numbers}, [], are_parsed=False), found)


def together(cut: Images, found: Parsed) -> Images:
    """Images that were cut out of their messages, all of one schema, and those of the messages that were parsed."""
    numbers, texts, deletes = cut.numbers, cut.texts, cut.deletes
    (seen,) = cut.schemas
    schemas = {seen: np.arange(len(numbers))}
    if found.numbers:
        said = [seen] * len(numbers) + found.schemas
        both = np.append(numbers, np.array(found.numbers, np.int64))
        order = np.argsort(both, kind="stable")
        numbers, deletes = both[order], np.append(deletes, np.array(found.deletes, np.bool_))[order]
        texts = pa.concat_arrays([texts, pa.array(found.texts, pa.binary())]).take(pa.array(order))
        codes = {schema: code for code, schema in enumerate(dict.fromkeys(said))}
        coded = np.array([codes[each] for each in said])[order] if len(codes) > 1 else np.zeros(len(order), np.int64)
        schemas = {schema: np.flatnonzero(coded == code) for schema, code in codes.items()}
    return Images(numbers, texts, deletes, schemas, found.refused, not len(cut.numbers))


def _usual(messages: pa.BinaryArray) -> Usual | None:
    """How messages of the block are, if one of a few shows it: any may be the odd one."""
    some = [each for each in messages[:: len(messages) // _LOOKED_AT + 1].to_pylist() if each is not None]
    parsed = {}
    for message in some:
        with suppress(*UNREADABLE):
            parsed[message] = _decode(message)
    bare = [message for message, event in parsed.items() if event.payload is msgspec.UNSET]
    return next((found for message in bare if (found := Usual.of(message, bare)) is not None), None)


def _wanted(found: Found, rules: EventRules) -> tuple[Places, Places, Places, npt.NDArray[np.bool_]]:
    """Of those images that count: message, beginning, end, and whether it is deleted."""
    is_update = found.ops == ord("u")
    kept = is_update | (found.ops == ord("c")) | (found.ops == ord("r"))
    old = is_update & found.has_before if rules.full else np.zeros(len(kept), np.bool_)
    if rules.full:
        kept &= ~is_update | old
    # Of each message first the image before, then the one after.
    both = np.ravel(np.column_stack([old, kept]))
    starts, ends = (np.ravel(np.column_stack(each)) for each in zip(found.before, found.after, strict=True))
    numbers = np.repeat(found.numbers, 2)
    return numbers[both], starts[both], ends[both], (np.arange(len(both)) % 2 == 0)[both]


def _parsed(messages: Messages, keys: pa.BinaryArray, numbers: npt.NDArray[np.int64], rules: EventRules) -> Parsed:
    """The images of these messages."""
    found = Parsed()
    schema = NOTHING
    deleted: bytes | None = None
    last = -1
    for number, message in zip(numbers.tolist(), messages.whole(numbers), strict=True):
        deleted, last = deleted if number == last + 1 else None, number
        if message is None:
            key = None if rules.full else keys[number].as_py()
            if key not in (None, deleted) and not take_key(key, NOTHING, number, found):
                found.refused.append(Refused(number, "a tombstone whose key is no JSON object"))
            continue
        deleted = None
        try:
            event = _decode(message)
        except UNREADABLE as error:
            found.refused.append(Refused(number, why_unreadable(error, message)))
            continue
        said = NOTHING
        if event.payload is not msgspec.UNSET:
            if event.payload is None:  # nobody makes a tombstone of this form
                continue
            said, event = bytes(event.schema), event.payload
            said = schema if said == schema else NOTHING if said == _NULL else said
            schema = said  # the same object for equal ones: it is hashed once
        if event.op == "d" and not rules.full and take_key(keys[number].as_py(), said, number, found):
            deleted = keys[number].as_py()
        elif (why := _take(event, said, number, rules, found)) is not None:
            if event.op is None and is_no_data(set(_event(message))):
                continue
            if event.op == "t" and rules.stops:
                raise SourceTruncated(truncated(table_of(message)))
            found.refused.append(Refused(number, why))
    return found


def take_key(key: bytes | None, schema: bytes, number: int, found: Parsed) -> bool:
    """Add the key as an image to delete; or say that it is no object. `schema`: if the key has none of its own."""
    try:
        said = _decode_key(key or NOTHING)
    except UNREADABLE:
        return False
    assert key is not None, "what can be decoded is there"
    payload, own = bytes(said.payload), bytes(said.schema)
    if payload in _ABSENT:
        found.add(number, key, schema, deletes=True)
    else:
        found.add(number, payload, schema if own in _ABSENT else own, deletes=True)
    return True


def _take(event: _Event, schema: bytes, number: int, rules: EventRules, found: Parsed) -> str | None:
    """Add the event's images; or why there are none."""
    before, after = bytes(event.before), bytes(event.after)
    has_before, has_after = before not in _ABSENT, after not in _ABSENT
    if (why := refusal_of(event.op, rules, has_before=has_before, has_after=has_after)) is not None:
        return why
    if event.op in _UPSERTS:
        if event.op == "u" and rules.full:
            found.add(number, before, schema, deletes=True)
        found.add(number, after, schema, deletes=False)
    elif event.op == "d":
        if rules.full and is_only_key(_object(before), rules.key):
            return ONLY_KEY
        found.add(number, before, schema, deletes=True)
    return None


def refusal_of(op: str | None, rules: EventRules, *, has_before: bool, has_after: bool) -> str | None:
    """Why an event has not the images that its operation needs; None if it has, or needs none."""
    match op:
        case "c" | "r" | "u":
            if not has_after:
                return f"op {op} without after"
            return _NOT_FULL.format("an update has no before") if op == "u" and rules.full and not has_before else None
        case "d":
            if has_before:
                return None
            return "a delete without before: the source's table has REPLICA IDENTITY NOTHING, or no key"
        case "t":
            return TRUNCATED
        case "m":
            return None
        case None:
            return NO_EVENT
    return f"op {op[:20]!r}, which is not one of c, r, u, d, t, m"


def is_insert(message: bytes | None) -> bool:
    """Whether an event, which has been decoded before, brings a row that was not there under its key."""
    event = _decode(message or NOTHING)
    return (event.payload or event).op in _INSERTS


def truncated(table: str) -> str:
    """Why the query ends."""
    return (
        f"the source's table {table} was truncated (op t): its older rows would stay in the table here. Set "
        "format.envelope.truncate to delete, which deletes them; or to deadLetter, which keeps them and records each "
        "truncate as a dead letter; or start again with a new table and a new snapshot"
    )


def table_of(message: bytes) -> str:
    """The name of the source's table in an event."""
    source = _event(message).get("source") or {}
    return ".".join(str(source[each]) for each in ("db", "schema", "table") if source.get(each))


def is_only_key(before: dict[str, Any], key: tuple[str, ...]) -> bool:
    """Whether an image has, but for the key, only what PostgreSQL sends for values that it does not know."""
    others = [value for name, value in before.items() if name not in key]
    return bool(others) and all(map(_is_empty, others))


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value in _EMPTY or str(value).startswith(_ZERO_TIMES)


def lacking_key(columns: Mapping[str, pa.Array], deletes: npt.NDArray[np.bool_], rules: EventRules) -> dict[int, str]:
    """The rows to be deleted that have no value in a column of the record key, and why they are none."""
    found: dict[int, str] = {}
    for name in () if rules.full or not deletes.any() else rules.key:
        if name in columns:  # else the SQL makes it
            lacks = deletes & columns[name].is_null().to_numpy(zero_copy_only=False)
            found |= dict.fromkeys(np.flatnonzero(lacks).tolist(), _LACKS_KEY.format(name))
    return found


def is_no_data(names: set[str]) -> bool:
    """Whether the members of a message are those of one that Debezium sends beside changes: heartbeats, transactions,
    DDL.
    """
    return names == HEARTBEAT or any(names >= each for each in _OTHER_MESSAGES)


def _event(message: bytes) -> dict[str, Any]:
    found = _object(message)
    payload = found.get("payload")
    return payload if isinstance(payload, dict) else found


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
