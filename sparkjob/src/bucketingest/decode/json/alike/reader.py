"""Reads messages that have a shape in common, in less than half the time of a parser that does not know what comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from bucketingest.decode.json.alike.shape import Shape, Values, shape_of
from bucketingest.decode.json.alike.text import Places, Text
from bucketingest.decode.json.alike.values import column_of, kind_of, not_json
from bucketingest.decode.json.doubts import Mask

_SHAPES_MAX: Final = 4
"""Shapes that are tried on a block."""
_SAMPLE: Final = 256
"""So many messages say whether a shape is worth to be tried on all."""
_PAUSE: Final = 7
"""So many blocks are not looked at behind one without a shape."""
_ROWS_MIN: Final = 64
"""Fewer messages of a shape are not worth it, ..."""
_SHARE_MIN: Final = 8
"""... nor is less than an eighth of the block."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Rows of messages that have one shape."""

    numbers: Places
    """Of the messages, in the block."""
    rows: pa.RecordBatch


class AlikeReader:
    """Reads into the columns of a schema, as Arrow's reader would, messages that are surely read alike."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._kinds = {field.name: kind_of(field.type) for field in schema}
        self._shapes: list[Shape] = []
        """Of the block before: the next one has mostly the same."""
        self._pause = 0

    def read(self, messages: pa.Array) -> list[Alike]:
        """Each message is in one of the results, or is to be read otherwise. All must be valid UTF-8, and none null."""
        least = max(_ROWS_MIN, len(messages) // _SHARE_MIN)
        if len(messages) < least:
            return []
        if self._pause:
            self._pause -= 1
            return []
        text = Text(messages)
        left, controls = _without_escapes(text), _controls(text)
        found: list[Alike] = []
        known, used = self._shapes, []
        for at in range(_SHAPES_MAX):
            if len(left) < least:
                break
            # Any message may be the odd one, so each attempt takes another.
            shape = known[at] if at < len(known) else self._shape(text, int(left[(len(left) - 1) * at // _SHAPES_MAX]))
            if shape is None or not _is_worth_it(text, shape, left):
                continue
            fits, values = shape.find(text, text.starts[left], text.ends[left])
            if controls is not None:  # a string has none
                fits &= controls[left] == shape.tabs
            if np.count_nonzero(fits) < least:
                continue
            used.append(shape)
            if not fits.all():
                values = [each.only(fits) for each in values]
            found.append(self._rows(text, shape, left[fits], values))
            left = left[~fits]
        self._shapes = used
        self._pause = 0 if used else _PAUSE
        return found

    def _shape(self, text: Text, number: int) -> Shape | None:
        return shape_of(text.bytes[text.starts[number] : text.ends[number]].tobytes(), self._kinds.get)

    def _rows(self, text: Text, shape: Shape, numbers: Places, values: list[Values]) -> Alike:
        columns: dict[str, pa.Array] = {}
        bad: Mask = np.zeros(len(numbers), np.bool_)
        for slot, places in zip(shape.slots, values, strict=True):
            doubts = None
            if slot.name in self._kinds:
                columns[slot.name], doubts = column_of(text, places, self._schema.field(slot.name).type)
            if slot.kind == "bare" and self._kinds.get(slot.name) != "bare":  # any value, a STRING's among them
                doubts = not_json(text, places)
            if doubts is not None:
                bad |= doubts
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(len(numbers), field.type)
            for field in self._schema
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if not bad.any():
            return Alike(numbers, rows)
        return Alike(numbers[~bad], rows.filter(pa.array(~bad)))


def _is_worth_it(text: Text, shape: Shape, numbers: Places) -> bool:
    """Whether about an eighth of the messages has the shape."""
    sample = numbers[:: max(1, len(numbers) // _SAMPLE)]
    fits, _ = shape.find(text, text.starts[sample], text.ends[sample])
    return bool(np.count_nonzero(fits) * 2 * _SHARE_MIN >= len(sample))


def _without_escapes(text: Text) -> Places:
    """The messages in which a quote is nothing but a string's beginning or end."""
    escapes = text.bytes == ord("\\")
    if not escapes.any():
        return np.arange(len(text.starts))
    return np.flatnonzero(text.per_message(escapes) == 0)


def _controls(text: Text) -> Places | None:
    """How many control characters each message has; None: none has one."""
    controls = text.bytes[: text.size] < ord(" ")
    return text.per_message(controls) if controls.any() else None
