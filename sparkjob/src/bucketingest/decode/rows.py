"""The result of every decoder: rows, and a reason for each message that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Undecodable(Exception):
    """A message that is no row."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(at, why)
        self.at = at
        """Position in the message, from 0 on."""
        self.why = why
        self.path: list[str] = []
        """Names of the fields around it, innermost first; `[3]` is an item."""

    def __str__(self) -> str:
        return self.describe("position")

    def describe(self, unit: str) -> str:
        """Where and why, in words. The position counts units from 1 on."""
        path = ".".join(reversed(self.path)).replace(".[", "[")
        place = f"field {path}, {unit} {self.at + 1}" if path else f"{unit} {self.at + 1}"
        return f"{place}: {self.why}"


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that is no row."""

    number: int
    """Of the message, in the block."""
    why: str
    """Field, position in the message from 1 on, and what is wrong; "" if the message has no value."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a block of messages is. Each message is either a row or refused, unless `made_of` says more."""

    rows: pa.RecordBatch
    """In the order of the messages."""
    refused: list[Refused]
    one_by_one: int
    """How many messages were not decoded in bulk."""
    made_of: npt.NDArray[np.int64] | None = None
    """Of each row the number of its message: one may have two rows, or none though it is not refused."""

    def numbers(self, count: int) -> npt.NDArray[np.int64]:
        """Of each row of so many messages, which one it is of."""
        if self.made_of is not None:
            return self.made_of
        is_row = np.ones(count, np.bool_)
        is_row[[each.number for each in self.refused]] = False
        return np.flatnonzero(is_row)

    def without(self, found: dict[int, str], count: int) -> Decoded:
        """Without some rows, by number, and why, and so without their messages: those are refused. `count`: of all
        messages.
        """
        if not found:
            return self
        numbers = self.numbers(count)
        why = {int(numbers[at]): text for at, text in found.items()}
        refused = [*self.refused, *(Refused(number, text) for number, text in why.items())]
        refused.sort(key=lambda each: each.number)
        kept = ~np.isin(numbers, list(why))
        made_of = None if self.made_of is None else self.made_of[kept]
        return Decoded(self.rows.filter(pa.array(kept)), refused, self.one_by_one, made_of)


@dataclass(frozen=True, slots=True)
class Bulk:
    """What was decoded at once, of the messages that have a value."""

    rows: pa.RecordBatch
    """In the order of the messages."""
    doubted: npt.NDArray[np.bool_]
    """Those that are not among the rows, and are to be decoded by themselves."""

    def completed(
        self, decode: Callable[[int], dict[str, Any]], unit: str, numbers: npt.NDArray[np.int64], refused: list[Refused]
    ) -> Decoded:
        """With the doubted ones. `decode`: one of them, by its place here; raises Undecodable, whose positions count
        units. `numbers`: what each is in the block. `refused`: the messages that are not here.
        """
        if not self.doubted.any():
            return Decoded(self.rows, refused, 0)
        refused, rows, found = list(refused), [], []
        for at in np.flatnonzero(self.doubted).tolist():
            try:
                rows.append(decode(at))
            except Undecodable as error:
                refused.append(Refused(int(numbers[at]), error.describe(unit)))
            else:
                found.append(at)
        refused.sort(key=lambda each: each.number)
        merged = self.rows
        if rows:
            merged = _merged(merged, batch(rows, merged.schema), np.append(np.flatnonzero(~self.doubted), found))
        return Decoded(merged, refused, int(self.doubted.sum()))


def batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows with values as Arrow's constructor takes them; fields that one lacks are null."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def with_value(messages: pa.BinaryArray) -> tuple[pa.BinaryArray, npt.NDArray[np.int64], list[Refused]]:
    """The messages that have a value, what each is in the block, and the others."""
    numbers = np.arange(len(messages))
    if not messages.null_count:
        return messages, numbers, []
    is_null = messages.is_null().to_numpy(zero_copy_only=False)
    return messages.drop_null(), numbers[~is_null], [Refused(int(number), "") for number in numbers[is_null]]


def _merged(first: pa.RecordBatch, second: pa.RecordBatch, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows of both, `order` having the place of each."""
    both = pa.Table.from_batches([first, second]).take(pa.array(np.argsort(order, kind="stable"))).combine_chunks()
    (merged,) = both.to_batches()
    return merged
