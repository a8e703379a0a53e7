"""Kafka's messages in the tasks' Python processes: decoded there, in blocks, and handed on to the write path. Spark
sends the message's bytes.

This module imports nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.debezium.events import TRUNCATED, TruncatedAt
from bucketingest.decode.debezium.heads import HEAD
from bucketingest.decode.kafka.columns import MessageColumns
from bucketingest.decode.kafka.message import HEADERS, OFFSET, VALUE
from bucketingest.decode.registered.wire_format import ids_of
from bucketingest.decode.rows import Decoded, Refused
from bucketingest.decode.sql.program import Program
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.shuffle import UNDECODED, counted, pack, rejected_rows
from bucketingest.years import beyond_years

Places = npt.NDArray[np.int64]

BLOCK_ROWS: Final = 8192
BLOCK_BYTES: Final = 4 * 1024**2
"""A block has at most so many messages and, but for a single larger message, at most so many bytes of them."""
BLOCK_BYTES_OF_EVENTS: Final = 4 * BLOCK_BYTES
"""Of an event, most bytes are what it says of its types and its source, and are not looked at."""
BLOCK_ROWS_OF_SCHEMAS: Final = 4 * BLOCK_ROWS
"""The messages of each schema are decoded by themselves: so many of each are to be in a block."""


class BlockDecoder(Protocol):
    """Decodes the messages of one format."""

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """The rows and the refused ones of a block of messages; see `MessageDecoder.decoded` for further columns."""


@dataclass(frozen=True, slots=True)
class MessageDecoder:
    """How messages become rows. Picklable."""

    blocks: BlockDecoder
    problem: str
    """Beginning of the detail of a dead letter."""
    no_value: str
    """Detail of a dead letter that has no value."""
    program: Program | None = None
    """What makes the table's rows of the messages'; None: Spark does, or nothing needs to."""
    columns: MessageColumns = field(default_factory=MessageColumns)
    """What rows have of their messages beside the values."""
    decoded: tuple[str, ...] = (VALUE,)
    """Columns of the messages that `blocks.decode` takes, in this order."""
    block_bytes: int = BLOCK_BYTES
    block_rows: int = BLOCK_ROWS
    empties: bool = False
    """Whether a truncate of the source's table is one here."""
    shorten: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    """What makes messages shorter before they are copied into blocks, by one more column that `blocks.decode` takes."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the messages that `decode` looks at; no others need to be read."""
        return tuple(dict.fromkeys([*self.decoded, *self.columns.needs, *([OFFSET] if self.empties else [])]))

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """The rows and the refused ones of a block, among them those with a time in no year that a column can have.
        `messages`: the columns that it needs, or more. Raises TruncatedAt.
        """
        heads = [HEAD] if HEAD in messages.schema.names else []
        decoded = self.blocks.decode(*[messages.column(name) for name in [*self.decoded, *heads]])
        truncates = [each.number for each in decoded.refused if each.why == TRUNCATED] if self.empties else []
        if truncates:
            raise TruncatedAt(messages.column(OFFSET)[truncates[-1]].as_py())
        decoded = self.columns.added_to(decoded, messages)
        return decoded.without(dict(beyond_years(decoded.rows)), messages.num_rows)

    def table_rows(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Places]:
        """The table's rows, and of each from which row it is made. Raises RowsInDoubt."""
        return (rows, np.arange(rows.num_rows)) if self.program is None else self.program.apply_numbered(rows)

    def detail(self, refused: Refused) -> str:
        """Why a message is no row, in words for the dead-letter table."""
        return f"{self.problem}: {refused.why}" if refused.why else self.no_value


def pack_messages(
    batches: Iterable[pa.RecordBatch], plan: WritePlan, decoder: MessageDecoder, map_task: int
) -> Iterator[pa.RecordBatch]:
    """Decode messages (columns `decoder.needs`) and turn the rows into shuffle batches, the last of which says how many
    messages are dead letters, if there are any: `refused_messages` makes them of the same messages, with where they
    came from. Raises RowsInDoubt: then nothing of the micro-batch is written.
    """
    refused: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        short = batches if decoder.shorten is None else map(decoder.shorten, batches)
        for block in blocks(short, decoder.block_bytes, decoder.block_rows):
            decoded = decoder.decode(block)
            refused.append(len(decoded.refused))
            yield decoder.table_rows(decoded.rows)[0]

    yield from pack_counting(rows(), plan, map_task, refused)


def pack_counting(
    batches: Iterable[pa.RecordBatch], plan: WritePlan, map_task: int, refused: list[int]
) -> Iterator[pa.RecordBatch]:
    """As `pack`, but of the rows without a place the last batch says only how many there are. `refused`: numbers of
    those that are refused before, which grow while `batches` are read.
    """
    yield from pack(batches, plan, map_task, refused.append)
    if count := sum(refused):
        yield counted(UNDECODED, count, plan, map_task)


def refused_messages(
    batches: Iterable[pa.RecordBatch], decoder: MessageDecoder, plan: WritePlan
) -> Iterator[pa.RecordBatch]:
    """The messages that are no rows, or rows without a place in the table, as the dead-letter table's columns from
    `reason` on.
    """
    for block in blocks(batches, decoder.block_bytes, decoder.block_rows):
        found = _refused_in(block, decoder, plan)
        if not found:
            continue
        numbers = sorted(found)
        messages = block.take(pa.array(numbers))
        columns: dict[str, pa.Array] = {
            "reason": pa.array([found[number][0] for number in numbers]),
            "detail": pa.array([found[number][1] for number in numbers]),
        }
        kept = [name for name in messages.schema.names if name != HEADERS]
        columns |= {name: messages.column(name) for name in kept}
        yield pa.RecordBatch.from_pydict(columns)


def _refused_in(block: pa.RecordBatch, decoder: MessageDecoder, plan: WritePlan) -> dict[int, tuple[str, str]]:
    """The numbers of these messages, and of each reason and detail."""
    decoded = decoder.decode(block)
    found = {each.number: ("decode", decoder.detail(each)) for each in decoded.refused}
    rows, made_of = decoder.table_rows(decoded.rows)
    rejected = rejected_rows(pa.RecordBatch.from_arrays(rows.columns, schema=plan.schema), plan)
    if rejected is not None:
        numbers = decoded.numbers(block.num_rows)[made_of[rejected.rows]]
        found |= dict(zip(numbers.tolist(), rejected.reasons, strict=True))
    return found


def marked_messages(
    batches: Iterable[pa.RecordBatch], decoder: MessageDecoder, *, data: str, bad: str, detail: str
) -> Iterator[pa.RecordBatch]:
    """The message of each row and each that cannot be decoded, in their order, with three further columns: the row,
    null if the message cannot be decoded; whether so; and why.
    """
    for block in blocks(batches, decoder.block_bytes, decoder.block_rows):
        decoded = decoder.decode(block)
        numbers = decoded.numbers(block.num_rows)
        rows = pa.StructArray.from_arrays(decoded.rows.columns, fields=list(decoded.rows.schema))
        of_refused = np.array([each.number for each in decoded.refused], np.int64)
        order = np.argsort(both := np.append(numbers, of_refused), kind="stable")
        is_bad = order >= len(numbers)
        why = np.array([None] * len(numbers) + [decoder.detail(each) for each in decoded.refused], object)
        block = block.take(pa.array(both[order]))  # noqa: PLW2901 - its messages as they are from here on
        columns: dict[str, pa.Array] = dict(zip(block.schema.names, block.columns, strict=True))
        columns[data] = rows.take(pa.array(order, mask=is_bad))
        columns[bad] = pa.array(is_bad)
        columns[detail] = pa.array(why[order], pa.string())
        yield pa.RecordBatch.from_pydict(columns)


def ids_in(batches: Iterable[pa.RecordBatch], at_most: int) -> Iterator[pa.RecordBatch]:
    """The ids of schemas in the headers of the messages' columns, each once, in a column `id`; of too many only so
    many.
    """
    found: set[int] = set()
    for block in blocks(batches):
        for column in block.columns:
            found.update(ids_of(column.drop_null()).tolist())
        if len(found) > at_most:
            break
    found.discard(-1)
    yield pa.RecordBatch.from_pydict({"id": pa.array(sorted(found)[:at_most], pa.int64())})


def blocks(
    batches: Iterable[pa.RecordBatch], bytes_max: int = BLOCK_BYTES, rows_max: int = BLOCK_ROWS
) -> Iterator[pa.RecordBatch]:
    """The messages in blocks that are worth Arrow's reader's effort, within the limits on rows and bytes."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for part in _parts(batch, bytes_max, rows_max):
            if pending and (rows + part.num_rows > rows_max or size + part.nbytes > bytes_max):
                yield _joined(pending)
                pending, rows, size = [], 0, 0
            pending.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if pending:
        yield _joined(pending)


def _parts(batch: pa.RecordBatch, bytes_max: int, rows_max: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of a block's size."""
    if batch.num_rows <= rows_max and batch.nbytes <= bytes_max:
        if batch.num_rows:
            yield batch
        return
    values = batch.column(VALUE)
    ends = np.frombuffer(values.buffers()[1], np.int32, batch.num_rows + 1, values.offset * 4)[1:].astype(np.int64)
    start = 0
    while start < batch.num_rows:
        begin = int(ends[start - 1]) if start else int(ends[0] - len(values[0].as_py() or b""))
        end = int(np.searchsorted(ends, begin + bytes_max, side="right"))
        end = min(max(end, start + 1), start + rows_max, batch.num_rows)
        yield batch.slice(start, end - start)
        start = end


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
