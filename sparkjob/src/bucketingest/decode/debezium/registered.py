"""Decodes Avro events of a registry's schemas into rows and deletes: the Avro decoder reads an event's images as
columns of columns, and here it is chosen, for all events at once, which image counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.debezium.avro_schemas import (
    EVENT_MEMBERS,
    OPERATION,
    readers_of,
    readings_of,
    row_of,
    said_of,
    why_unwanted,
)
from bucketingest.decode.debezium.events import (
    DELETED,
    NO_ROW,
    ONLY_KEY,
    TRUNCATED,
    EventRules,
    SourceTruncated,
    is_only_key,
    lacking_key,
    refusal_of,
    truncated,
)
from bucketingest.decode.debezium.placeholders import WHY, WHY_NEW, placeholders_in_columns
from bucketingest.decode.registered.wire_format import WriterSchema, ids_of
from bucketingest.decode.rows import Decoded, Refused

Places = npt.NDArray[np.int64]

_UPDATE: Final = 2
_DELETE: Final = 3
"""Of "crud"."""


class RegisteredDebeziumDecoder(RegisteredAvroDecoder):
    """Decodes events as docs/debezium.md says what they mean. Picklable."""

    def __init__(
        self, row_text: str, columns: pa.Schema, writers: Mapping[int, WriterSchema], rules: EventRules
    ) -> None:
        """`row_text`: the schema of the row, or of the event; `columns`: with `DELETED` as the last."""
        assert columns.names[-1] == DELETED, "what is deleted is a column of the source"
        self._columns, self._row_text, self._rules = columns, row_of(row_text), rules
        _, self._readings = readings_of(self._row_text)
        row = pa.struct([pa.field(field.name, each.read) for field, each in zip(columns, self._readings, strict=False)])
        events, keys = readers_of(self._row_text, flat=rules.flat)
        types = dict.fromkeys(EVENT_MEMBERS, row) | {"op": pa.string()}
        read = [*row, pa.field(DELETED, pa.string())] if rules.flat else list(types.items())
        super().__init__(events, pa.schema(read), writers)
        self._operations = RegisteredAvroDecoder(OPERATION, pa.schema([("op", pa.string())]), writers)
        self._keys = RegisteredAvroDecoder(keys, pa.schema(list(row)), writers)

    def __reduce__(self) -> tuple[type[Self], tuple[str, pa.Schema, Mapping[int, WriterSchema], EventRules]]:
        return type(self), (self._row_text, self._columns, self._writers, self._rules)

    def knowing(self, writers: Mapping[int, WriterSchema]) -> Self:
        """See `RegisteredDecoder`."""
        return type(self)(self._row_text, self._columns, writers, self._rules)

    def columns_in(self, writer: WriterSchema) -> str:
        """See `RegisteredDecoder`."""
        if not self._said(writer)[0]:
            raise UnreadableSchema("is not one of events")
        return row_of(writer.text)

    def why_refused(self, schema_id: int) -> str | None:
        """See `RegisteredDecoder`. Schemas of keys, heartbeats and the like are none of events."""
        writer = self._writers[schema_id]
        is_other = not writer.why_not and not self._said(writer)[0]
        return None if is_other else super().why_refused(schema_id)

    def decode(self, messages: pa.BinaryArray, keys: pa.BinaryArray | None = None) -> Decoded:
        """Decode messages by their values, null for one without a value, and keys; without keys a message without a
        value is nothing. Raises UnknownSchemaIds, SourceTruncated.
        """
        keys = pa.nulls(len(messages), pa.binary()) if keys is None else keys
        events, why = self._events_of(messages)
        decoded = super().decode(events)
        why |= {each.number: each.why for each in decoded.refused if each.why}
        chosen = _Chosen(self._as_events(decoded.rows), decoded.numbers(len(messages)), self._rules)
        for number, (op, text) in chosen.refused.items():
            if op == "t" and self._rules.stops:
                raise SourceTruncated(truncated(self._table_of(messages[number].as_py())))
            why[number] = text
        if not self._rules.full:
            chosen.delete_by_keys(
                keys, np.flatnonzero(messages.is_null().to_numpy(zero_copy_only=False)), self._keys, why
            )
        columns, numbers, deletes = self._columns_of(chosen, why)
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(deletes)], schema=self._columns)
        if why:
            kept = ~np.isin(numbers, list(why))
            rows, numbers = rows.filter(pa.array(kept)), numbers[kept]
        return Decoded(rows, [Refused(number, why[number]) for number in sorted(why)], decoded.one_by_one, numbers)

    def _events_of(self, messages: pa.BinaryArray) -> tuple[pa.BinaryArray, dict[int, str]]:
        """The messages, null for each that has the schema of something else; and why some of those are none."""
        numbers = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False))
        ids = ids_of(messages.drop_null())
        other = np.zeros(len(messages), np.bool_)
        why: dict[int, str] = {}
        for each in np.unique(ids).tolist():
            writer = self._writers.get(each)
            if writer is None or writer.why_not:
                continue
            is_event, is_no_data, _ = self._said(writer)
            if not is_event:
                places = numbers[ids == each]
                other[places] = True
                unwanted = why_unwanted(writer.text, flat=self._rules.flat)
                why |= {} if is_no_data else dict.fromkeys(places.tolist(), f"schema {each}, {unwanted}")
                why |= self._truncates(messages, places) if unwanted == NO_ROW else {}
        return pc.if_else(pa.array(other), None, messages) if other.any() else messages, why

    def _truncates(self, messages: pa.BinaryArray, places: Places) -> dict[int, str]:
        """Those of the events that truncate, in a topic of flat rows, and why they are none. Raises SourceTruncated."""
        decoded = self._operations.decode(messages.take(pa.array(places)))
        at = decoded.numbers(len(places))[pc.equal(decoded.rows.column(0), "t").to_numpy(zero_copy_only=False)]
        if len(at) and self._rules.stops:
            raise SourceTruncated(truncated(self._table_of(messages[int(places[at[0]])].as_py())))
        return dict.fromkeys(places[at].tolist(), TRUNCATED)

    def _as_events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Flat rows as events have them, each the image before and the one after."""
        if not self._rules.flat:
            return rows
        *columns, deleted = rows.columns
        image = pa.StructArray.from_arrays(columns, fields=list(rows.schema)[:-1])
        op = pc.if_else(pc.fill_null(pc.equal(deleted, "true"), False), "d", "c")  # noqa: FBT003 - Arrow's signature
        return pa.RecordBatch.from_arrays([op, image, image], list(EVENT_MEMBERS))

    def _said(self, writer: WriterSchema) -> tuple[bool, bool, str]:
        return said_of(writer.text, flat=self._rules.flat)

    def _table_of(self, message: bytes) -> str:
        return said_of(self._writers[int.from_bytes(message[1:5], "big")].text)[2]

    def _columns_of(self, chosen: _Chosen, why: dict[int, str]) -> tuple[list[pa.Array], Places, npt.NDArray[np.bool_]]:
        """The columns of the images, of each row the number of its message, and whether it is to be deleted; adds to
        `why`.
        """
        images, numbers, deletes = chosen.together()
        read = dict(zip(self._columns.names, images.flatten(), strict=False))
        looked_at = {name: column for name, column in read.items() if name not in self._rules.unused}
        found = placeholders_in_columns(looked_at, self._rules.keeps)
        texts = {at: WHY.format(name) for at, name in found.items()}
        if self._rules.keeps and not self._rules.flat:
            for at, name in placeholders_in_columns(looked_at).items():
                if at not in found and int(numbers[at]) in chosen.inserts:
                    texts[at] = WHY_NEW.format(name)
        why |= {int(numbers[at]): text for at, text in texts.items() if not deletes[at]}
        for at, text in lacking_key(read, deletes, self._rules).items():
            why[int(numbers[at])] = text
        columns = []
        for (name, column), reading in zip(read.items(), self._readings, strict=True):
            values, bad = reading.convert(column)
            columns.append(values)
            for at, text in bad.items():
                why.setdefault(int(numbers[at]), f"field {name}: {text}")
        return columns, numbers, deletes


class _Chosen:
    """Which images of events count: row `places[i]` of all `images` is one, the `orders[i]`-th."""

    def __init__(self, events: pa.RecordBatch, numbers: Places, rules: EventRules) -> None:
        """`numbers`: of the messages, in the block."""
        self._numbers, self._rules = numbers, rules
        op, before, after = events.columns
        codes = pc.fill_null(pc.index_in(op, pa.array(list("crud"))), -1).to_numpy(zero_copy_only=False)
        has_before, has_after = (each.is_valid().to_numpy(zero_copy_only=False) for each in (before, after))
        upserts = (codes >= 0) & (codes <= _UPDATE) & has_after
        self._gone = (codes == _DELETE) & has_before if rules.full else codes == _DELETE
        self._has_before = has_before
        self.inserts = frozenset(numbers[(codes >= 0) & (codes < _UPDATE)].tolist() if rules.keeps else [])
        """Numbers of the messages with rows that were not there under their keys."""
        self._images, self._places, self._orders = [after], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        self._deletes = [np.empty(0, np.bool_)]
        self.refused: dict[int, tuple[str | None, str]] = {}
        """Operation, and why, by the message's number."""
        if rules.full:
            upserts &= (codes != _UPDATE) | has_before
            for at in np.flatnonzero(self._gone).tolist():
                if is_only_key(before[at].as_py(), rules.key):
                    self.refused[int(numbers[at])] = "d", ONLY_KEY
        for at in np.flatnonzero(~(upserts | self._gone)).tolist():
            said = op[at].as_py()
            why = refusal_of(said, rules, has_before=bool(has_before[at]), has_after=bool(has_after[at]))
            if why is not None:
                self.refused[int(numbers[at])] = said, why
        self._add(0, np.flatnonzero(upserts), 2 * numbers[upserts] + 1, deletes=False)
        old = np.flatnonzero(self._gone | (upserts & (codes == _UPDATE))) if rules.full else self._places[0]
        self._images.append(before)
        self._add(len(after), old, 2 * numbers[old], deletes=True)

    def delete_by_keys(
        self, keys: pa.BinaryArray, tombstones: Places, decoder: RegisteredAvroDecoder, why: dict[int, str]
    ) -> None:
        """Choose what deletes and messages without a value delete: their keys, or the `before` of a delete whose key is
        no record. Adds to `why`.
        """
        deletes = dict(zip(self._numbers[self._gone].tolist(), np.flatnonzero(self._gone).tolist(), strict=True))
        numbers = np.array(sorted({*deletes, *tombstones.tolist()}), np.int64)
        numbers = np.array([each for each in numbers.tolist() if each in deletes or keys[each].is_valid], np.int64)
        if not len(numbers):
            return
        found = decoder.decode(keys.take(pa.array(numbers)))
        row_of = {int(numbers[at]): row for row, at in enumerate(found.numbers(len(numbers)).tolist())}
        last, deleted = -2, None
        by_key, by_before = [], []
        for number in numbers.tolist():
            key = keys[number].as_py()
            deleted = deleted if number == last + 1 else None
            last = number
            if number not in deletes and key == deleted:  # behind its delete it is nothing
                continue
            if number in row_of:
                by_key.append(number)
            elif number not in deletes:
                why[number] = "a tombstone whose key is no Avro record that the registry has"
            elif self._has_before[deletes[number]]:
                by_before.append(number)
            else:
                why[number] = refusal_of("d", self._rules, has_before=False, has_after=False) or ""
            deleted = key if number in deletes else deleted
        before = len(self._images[0])
        rows = pa.StructArray.from_arrays(found.rows.columns, fields=list(found.rows.schema))
        self._images.append(rows)
        self._add(before, np.array([deletes[each] for each in by_before], np.int64), 2 * np.array(by_before, np.int64))
        self._add(2 * before, np.array([row_of[each] for each in by_key], np.int64), 2 * np.array(by_key, np.int64))

    def _add(self, first: int, places: Places, orders: Places, *, deletes: bool = True) -> None:
        self._places.append(first + places)
        self._orders.append(orders)
        self._deletes.append(np.full(len(places), deletes))

    def together(self) -> tuple[pa.StructArray, Places, npt.NDArray[np.bool_]]:
        """The images in the order of their messages, their messages' numbers, and which are to be deleted."""
        places, orders = np.concatenate(self._places), np.concatenate(self._orders)
        deletes = np.concatenate(self._deletes)
        if len(places) == len(self._images[0]) and not deletes.any():  # the usual block
            return self._images[0], orders // 2, deletes
        order = np.argsort(orders, kind="stable")
        images = pa.concat_arrays(self._images).take(pa.array(places[order]))
        return images, orders[order] // 2, deletes[order]
