"""Blocks of messages mean what each message alone means, and Python's own parser agrees on what is JSON.

FUZZED_MESSAGES says how many (6,000), FUZZED_SEED which (1).
"""

from __future__ import annotations

import itertools
import json
import os
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.columns import read_type
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.doubts import Block
from bucketingest.decode.json.exact import ExactDecoder
from bucketingest.decode.json.times import MICROS_OF
from bucketingest.decode.rows import Undecodable, batch
from support.decoding.json_messages import JsonMessages
from support.decoding.json_values import SCHEMA

BLOCKS = (1, 2, 3, 5, 8, 13, 40, 200, 1000)
"""Numbers of messages decoded together, in turns: large blocks of odd messages are decoded one by one."""
ALIKE = 400
"""Messages of one producer, decoded together."""
COLUMNS = columns_of(SCHEMA)
COUNT = int(os.environ.get("FUZZED_MESSAGES", "6000"))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
UNITS = sorted(MICROS_OF.values())


class Alone:
    """What each message is by itself."""

    def __init__(self, messages: list[bytes | None], unit: int) -> None:
        self.refused: dict[int, str] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        exact = ExactDecoder(COLUMNS, unit)
        for number, message in enumerate(messages):
            try:
                if message is None:
                    self.refused[number] = ""
                else:
                    self._rows[number] = exact.decode(message)
            except Undecodable as error:
                self.refused[number] = error.describe("character")

    def differs(self, decoder: JsonDecoder, messages: list[bytes | None], numbers: list[int]) -> list[str]:
        """In words, what these messages are otherwise when they are decoded together."""
        decoded = decoder.decode(pa.array([messages[number] for number in numbers], pa.binary()))
        refused = {numbers[each.number]: each.why for each in decoded.refused}
        wanted = {number: self.refused[number] for number in numbers if number in self.refused}
        if refused != wanted:
            return [str((messages[each], refused.get(each), wanted.get(each))) for each in refused | wanted]
        good = [number for number in numbers if number not in refused]
        rows = batch([self._rows[number] for number in good], COLUMNS)
        return [
            f"{field.name}: {one} alone, {other} together: {messages[number]!r}"
            for field in COLUMNS
            for number, one, other in zip(
                good, texts(rows.column(field.name)), texts(decoded.rows.column(field.name)), strict=True
            )
            if one != other
        ]


def texts(values: pa.Array) -> list[str]:
    """Each value as text, in which -0.0 and 0.0 are two and NaN is itself."""
    return [repr(each) for each in values.to_pylist()]


@pytest.mark.parametrize("unit", UNITS)
def test_messages_of_one_producer_are_the_same_together_and_alone(unit: int) -> None:
    source = JsonMessages(SEED)
    differing: list[str] = []
    taken = together = 0
    read = pa.schema([field.with_type(read_type(field.type, unit)) for field in COLUMNS])
    for _ in range(max(1, COUNT // ALIKE // len(UNITS))):
        messages = source.alike(ALIKE)
        alone = Alone(messages, unit)
        differing += alone.differs(JsonDecoder(COLUMNS, unit), messages, list(range(ALIKE)))
        taken += ALIKE - len(alone.refused)
        block = Block(pa.array([each or b"" for each in messages], pa.binary()))
        kept = block.lines if block.is_utf8 else block.only(np.flatnonzero(~block.doubted())).lines
        together += sum(len(each.numbers) for each in AlikeReader(read).read(kept))
    assert not differing, "\n".join(differing[:20])
    assert taken > COUNT // len(UNITS) // 10
    assert unit or together > COUNT // len(UNITS) // 10, "they have no shape in common"


@pytest.mark.parametrize("unit", UNITS)
def test_odd_messages_are_the_same_together_and_alone(unit: int) -> None:
    count = COUNT // len(UNITS)
    messages = JsonMessages(SEED + unit).take(count)
    alone, decoder = Alone(messages, unit), JsonDecoder(COLUMNS, unit)
    differing: list[str] = []
    at = 0
    for size in itertools.cycle(BLOCKS):
        if at >= count:
            break
        differing += alone.differs(decoder, messages, list(range(at, min(at + size, count))))
        at += size
    good = [number for number in range(count) if number not in alone.refused]
    for start in range(0, len(good), 25):  # without odd ones, so that many are decoded together
        differing += alone.differs(decoder, messages, good[start : start + 25])
    assert not differing, "\n".join(differing[:20])
    assert count // 10 < len(alone.refused) < count - count // 10, "too odd, or not odd enough"


def test_what_is_taken_is_json_for_python_and_what_is_refused_as_json_is_not() -> None:
    messages = JsonMessages(SEED).take(COUNT)
    refused = Alone(messages, 1).refused
    for number, message in enumerate(messages):
        if message is None:
            continue
        why = refused.get(number)
        found = parsed(message)
        if found is None:
            continue
        if why is None:
            assert isinstance(found, dict), message
        elif why.endswith(("levels", "characters", "half of a character")) or "field" in why:
            continue  # limits and the columns' types are our own
        else:
            assert not isinstance(found, dict), (message, why)


def parsed(message: bytes) -> Any:
    """What it is as JSON; a text if it is none, None if Python does not say."""
    try:
        return json.loads(message.decode(), parse_constant=no_constant)
    except RecursionError:  # Python's own limit of levels
        return None
    except ValueError as error:
        return f"not JSON: {error}"


def no_constant(name: str) -> NoReturn:
    raise ValueError(name)
