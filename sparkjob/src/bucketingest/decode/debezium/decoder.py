"""Decodes a block of Debezium's JSON events into rows and deletes, on top of the decoder of plain JSON: an image of a
row is a flat object as any other message is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.debezium.events import DELETED, NOTHING, EventRules, Images, images_of, is_insert, lacking_key
from bucketingest.decode.debezium.flat import flat_images_of
from bucketingest.decode.debezium.heads import Messages
from bucketingest.decode.debezium.placeholders import WHY, WHY_NEW, may_have_placeholders, placeholders_in
from bucketingest.decode.debezium.readings import Reading, readings_of
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.rows import Decoded, Refused

Places: TypeAlias = npt.NDArray[np.int64]

_SCHEMAS_MAX: Final = 64
"""So many of them a process keeps: each change of the source's table makes another one."""
_BASE64: Final = "; decimal.handling.mode precise is for messages with a schema: set string, or schemas.enable"


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the images whose messages say the same of their types."""

    rows: pa.RecordBatch
    places: Places
    """Of each row, among all images."""
    one_by_one: int


class DebeziumDecoder:
    """Decodes events as docs/debezium.md says what they mean. Picklable."""

    def __init__(self, columns: pa.Schema, unit: int, rules: EventRules) -> None:
        """`columns`: with `DELETED` as the last; `unit`: see `JsonDecoder`, for messages without a schema."""
        assert columns.names[-1] == DELETED, "what is deleted is a column of the source"
        self.schema = columns
        self._images = pa.schema(list(columns)[:-1])
        self._looked_at = pa.schema([each for each in self._images if each.name not in rules.unused])
        self._unit = unit
        self._rules = rules
        self._reader = lru_cache(_SCHEMAS_MAX)(self._make_reader)

    def __reduce__(self) -> tuple[type[DebeziumDecoder], tuple[pa.Schema, int, EventRules]]:
        return DebeziumDecoder, (self.schema, self._unit, self._rules)

    def decode(
        self, values: pa.BinaryArray, keys: pa.BinaryArray | None = None, heads: pa.DictionaryArray | None = None
    ) -> Decoded:
        """Decode messages by their values, null for one without a value, and keys; without keys a message without a
        value is nothing. `heads`: what was cut off from the values, see `with_heads_apart`. Raises SourceTruncated.
        """
        keys = pa.nulls(len(values), pa.binary()) if keys is None else keys
        messages = Messages.of(values, heads)
        find = flat_images_of if self._rules.flat else images_of
        images = find(messages, keys, self._rules)
        why: dict[int, str] = {}
        parts = list(self._parts(images, messages, why))
        if why and not images.are_parsed:
            images, why = find(messages, keys, self._rules, parse=True), {}
            parts = list(self._parts(images, messages, why))
        why |= {each.number: each.why for each in images.refused}
        rows, places = _together(parts, self._images)
        numbers, deletes = images.numbers[places], images.deletes[places]
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        why |= {int(numbers[at]): text for at, text in lacking_key(columns, deletes, self._rules).items()}
        if why:
            kept = ~np.isin(numbers, list(why))
            rows, numbers, deletes = rows.filter(pa.array(kept)), numbers[kept], deletes[kept]
        rows = pa.RecordBatch.from_arrays([*rows.columns, pa.array(deletes)], schema=self.schema)
        refused = [Refused(number, why[number]) for number in sorted(why)]
        return Decoded(rows, refused, sum(part.one_by_one for part in parts), numbers)

    def _parts(self, images: Images, messages: Messages, why: dict[int, str]) -> Iterator[_Part]:
        """Rows, schema by schema; adds to `why`, by the number of the message, why others are none."""
        for schema, places in images.schemas.items():
            if len(places):
                yield self._part(images, schema, places, messages, why)

    def _refuse_placeholders(
        self, images: Images, texts: pa.BinaryArray, places: Places, messages: Messages
    ) -> dict[int, str]:
        """Why images that lack a value are no rows, by the number of the message."""
        lacking = placeholders_in(texts, self._looked_at, self._rules.keeps)
        why = {at: WHY.format(name) for at, name in lacking.items()}
        if self._rules.keeps and not self._rules.flat:
            others = {at: name for at, name in placeholders_in(texts, self._looked_at).items() if at not in why}
            whole = messages.whole(images.numbers[places[list(others)]]) if others else []
            new = [at for at, message in zip(others, whole, strict=True) if is_insert(message)]
            why |= {at: WHY_NEW.format(others[at]) for at in new}
        return {int(images.numbers[places[at]]): text for at, text in why.items() if not images.deletes[places[at]]}

    def _part(self, images: Images, schema: bytes, places: Places, messages: Messages, why: dict[int, str]) -> _Part:
        decoder, readings = self._reader(schema)
        texts = images.texts if len(places) == len(images.texts) else images.texts.take(pa.array(places))
        decoded = decoder.decode(texts)
        if decoded.refused or may_have_placeholders(decoded.rows):
            why |= self._refuse_placeholders(images, texts, places, messages)
        for each in decoded.refused:
            hint = _BASE64 if "DECIMAL" in each.why and schema == NOTHING else ""
            why.setdefault(int(images.numbers[places[each.number]]), f"{each.why}{hint}")
        places = places[decoded.numbers(len(texts))]
        columns = []
        for field, reading, column in zip(self._images, readings, decoded.rows.columns, strict=True):
            values, bad = reading.convert(column)
            columns.append(values)
            for at, text in bad.items():
                why.setdefault(int(images.numbers[places[at]]), f"field {field.name}: {text}")
        return _Part(pa.RecordBatch.from_arrays(columns, schema=self._images), places, decoded.one_by_one)

    def _make_reader(self, schema: bytes) -> tuple[JsonDecoder, list[Reading]]:
        readings = readings_of(self._images, schema)
        read = [field.with_type(each.read) for field, each in zip(self._images, readings, strict=True)]
        return JsonDecoder(pa.schema(read), self._unit if schema == NOTHING else 0), readings


def _together(parts: list[_Part], schema: pa.Schema) -> tuple[pa.RecordBatch, Places]:
    """All rows in the order of their images, and the place of each."""
    if not parts:
        return pa.RecordBatch.from_pylist([], schema), np.array([], np.int64)
    if len(parts) == 1:
        return parts[0].rows, parts[0].places
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places, kind="stable")
    table = pa.Table.from_batches([part.rows for part in parts]).take(pa.array(order)).combine_chunks()
    rows = table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema)
    return rows, places[order]
