"""What each message of a topic of Debezium's is: an image of a row to keep, one to delete, nothing, or no event at all.

Field names and operations as io.debezium.data.Envelope has them. No value of a row is looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from bucketingest.decode.rows import Refused
from bucketingest.errors import BucketIngestError

DELETED: Final = "__deleted"
"""The last column of the rows, BOOLEAN: whether the row is to be deleted. No column of the table."""
NOTHING: Final = b""
_NULL: Final = b"null"
_ABSENT: Final = (NOTHING, _NULL)
_UPSERTS: Final = frozenset("cru")
_OTHER_MESSAGES: Final = ({"status", "id", "event_count"}, {"ddl", "databaseName"})
"""Members of transaction markers and of schema changes; a heartbeat has nothing but `ts_ms`."""
NO_EVENT: Final = "no change event of Debezium: it has no op; flat rows, as of ExtractNewRecordState, need no envelope"
_NOT_FULL: Final = (
    "format.envelope.before is full, but {}: give the source's table REPLICA IDENTITY FULL, or set table.index.global, "
    "or partition by columns of the key"
)
ONLY_KEY: Final = _NOT_FULL.format("the before of a delete has nothing but the key")
_EMPTY: Final[tuple[object, ...]] = (None, "", 0, "0", "AA==", "{}", "[]", [], b"", b"\0")
_ZERO_TIMES: Final = ("1970-01-01", "00:00:00")


class SourceTruncated(BucketIngestError):
    """The source's table was truncated, and the resource does not say that its rows may stay."""


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
    """A truncate ends the query; else it is a dead letter."""
    key: tuple[str, ...] = ()
    """Columns that each `before` has; only looked at if it should be full."""


@dataclass(slots=True)
class Images:
    """Images of rows in the order of their messages; one message may have two."""

    numbers: list[int] = field(default_factory=list)
    """Of the message, in the block."""
    texts: list[bytes] = field(default_factory=list)
    """Each as JSON."""
    deletes: list[bool] = field(default_factory=list)
    schemas: list[bytes] = field(default_factory=list)
    """What the message says of its types, as JSON; `NOTHING` if it says nothing."""
    refused: list[Refused] = field(default_factory=list)

    def add(self, number: int, image: bytes, schema: bytes, *, deletes: bool) -> None:
        """Add the next one."""
        self.numbers.append(number)
        self.texts.append(image)
        self.deletes.append(deletes)
        self.schemas.append(schema)


def images_of(messages: pa.BinaryArray, keys: pa.BinaryArray, rules: EventRules) -> Images:
    """The images of the messages. What a delete deletes is said by its key, unless each `before` is complete: its other
    columns may have values that are made up.

    A message without a value deletes its key too: where a topic is compacted nothing else is left of a delete. Behind
    its delete it is nothing, and if a delete needs more than the key. Raises SourceTruncated.
    """
    found = Images()
    schema = NOTHING
    kept = frozenset("cr" if rules.full else "cru")
    numbers, texts, schemas = found.numbers.append, found.texts.append, found.schemas.append
    deletes = found.deletes.append
    deleted: bytes | None = None
    for number, message in enumerate(messages.to_pylist()):
        if message is None:
            key = None if rules.full else keys[number].as_py()
            if key not in (None, deleted) and not _take_key(key, NOTHING, number, found):
                found.refused.append(Refused(number, "a tombstone whose key is no JSON object"))
            continue
        deleted = None
        try:
            event = _decode(message)
        except msgspec.DecodeError as error:
            found.refused.append(Refused(number, str(error) if message.strip() else "the message is empty"))
            continue
        said = NOTHING
        if event.payload is not msgspec.UNSET:
            if event.payload is None:  # nobody makes a tombstone of this form
                continue
            said, event = bytes(event.schema), event.payload
            said = schema if said == schema else NOTHING if said == _NULL else said
            schema = said  # the same object for equal ones: it is hashed once
        after = bytes(event.after)
        if event.op in kept and after not in _ABSENT:
            numbers(number)  # as `Images.add` does: most messages come here
            texts(after)
            schemas(said)
            deletes(False)  # noqa: FBT003 - a list's
        elif event.op == "d" and not rules.full and _take_key(keys[number].as_py(), said, number, found):
            deleted = keys[number].as_py()
        elif (why := _take(event, said, number, rules, found)) is not None:
            if event.op is None and is_no_data(set(_event(message))):
                continue
            if event.op == "t" and rules.stops:
                raise SourceTruncated(truncated(_table_of(message)))
            found.refused.append(Refused(number, why))
    return found


def _take_key(key: bytes | None, schema: bytes, number: int, found: Images) -> bool:
    """Add the key as an image to delete; or say that it is no object. `schema`: if the key has none of its own."""
    try:
        said = _decode_key(key or NOTHING)
    except msgspec.DecodeError:
        return False
    assert key is not None, "what can be decoded is there"
    payload, own = bytes(said.payload), bytes(said.schema)
    if payload in _ABSENT:
        found.add(number, key, schema, deletes=True)
    else:
        found.add(number, payload, schema if own in _ABSENT else own, deletes=True)
    return True


def _take(event: _Event, schema: bytes, number: int, rules: EventRules, found: Images) -> str | None:
    """Add the event's images; or why there are none."""
    before, after = bytes(event.before), bytes(event.after)
    has_before, has_after = before not in _ABSENT, after not in _ABSENT
    if (why := refusal_of(event.op, rules, has_before=has_before, has_after=has_after)) is not None:
        return why
    if event.op in _UPSERTS:
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
            return "the source's table was truncated: rows that came before are still in the table here"
        case "m":
            return None
        case None:
            return NO_EVENT
    return f"op {op[:20]!r}, which is none of c, r, u, d, t, m"


def truncated(table: str) -> str:
    """Why the query ends."""
    return (
        f"the source's table {table} was truncated (op t): its older rows would stay in the table here. Delete them, "
        "or start again with a new table and a new snapshot; or set format.envelope.truncate to deadLetter, which goes "
        "on, keeps the rows, and records each truncate as a dead letter"
    )


def _table_of(message: bytes) -> str:
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


def is_no_data(names: set[str]) -> bool:
    """Whether the members of a message are those of one that Debezium sends beside changes: heartbeats, transactions,
    DDL.
    """
    return names == {"ts_ms"} or any(names >= each for each in _OTHER_MESSAGES)


def _event(message: bytes) -> dict[str, Any]:
    found = _object(message)
    payload = found.get("payload")
    return payload if isinstance(payload, dict) else found


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
