"""What it costs that messages of two schemas of a registry alternate: the processor time of decoding and writing them,
beside the same numbers of messages of each schema by itself. The second has one more column, and a wider one.

Needs no Spark: messages are decoded and written in this process, by the project's own decoders and write path.
Run it with PYTHONPATH=tests from the project's folder.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args

import pyarrow as pa

from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.stream.source.messages import BLOCK_BYTES, BLOCK_ROWS_OF_SCHEMAS, blocks
from support.evolution.chains import Field, FormatName
from support.evolution.formats import FORMATS, MessageFormat
from support.tables.local_writer import LocalWriter

BATCH: Final = 1000
"""Messages of a batch, as the reader of Kafka makes them."""
KINDS: Final = {"a": "string", "b": "double", "c": "long", "d": "boolean", "e": "string", "f": "long"}
VERSIONS: Final = (
    tuple(Field(name, kind, nullable=True) for name, kind in KINDS.items()),
    tuple(Field(name, kind, nullable=True) for name, kind in [*KINDS.items(), ("g", "string")]),
)
NARROW: Final = replace(VERSIONS[0][2], kind="int")
"""What the first schema has for `c` where the format has such a type."""


def main() -> None:
    """Print a row for each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=7)
    given = parser.parse_args()
    print(
        "| messages | decode: one schema, µs | alternating | ratio | and write: one schema, µs | alternating | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in get_args(FormatName):
        print(f"| {name} |{_measured(FORMATS[name], given.rows, given.repetitions)}", flush=True)


def _measured(format_: MessageFormat, rows: int, repetitions: int) -> str:
    decoder = _decoder(format_)
    first, second = [
        [format_.message(each, _row(at, each), schema_id) for at in range(rows)]
        for schema_id, each in enumerate(_versions(format_), 1)
    ]
    mixed = [each for pair in zip(first[::2], second[1::2], strict=True) for each in pair]
    text = ""
    for writes in (False, True):
        took = []
        for _ in range(repetitions + 1):
            one, both, other = (_seconds(each, decoder, writes=writes) for each in (first, mixed, second))
            took.append(((one + other) / 2, both))
        apart, together = (statistics.median(each) / rows * 1e6 for each in zip(*took[1:], strict=True))
        ratios = sorted(each / both for each, both in took[1:])
        text += (
            f" {apart:.2f} | {together:.2f} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
        )
    return text


def _decoder(format_: MessageFormat) -> RegisteredDecoder:
    """As the driver makes it after it has seen both schemas."""
    first, second = _versions(format_)
    writers = {at: WriterSchema(format_.text(each)) for at, each in enumerate((first, second), 1)}
    columns = ColumnsSchema()
    columns.text = format_.reader(first)
    try:
        columns.cover(writers, format_.decoder(columns.text, {}).columns_in)
    except SchemaGrown as grown:
        return format_.decoder(grown.text, writers)
    raise AssertionError("the second schema has a column more")


def _versions(format_: MessageFormat) -> tuple[Sequence[Field], Sequence[Field]]:
    first, second = VERSIONS
    return (first if format_.name == "json" else (*first[:2], NARROW, *first[3:])), second


def _seconds(values: Sequence[bytes], decoder: RegisteredDecoder, *, writes: bool) -> float:
    batches = [
        pa.RecordBatch.from_pydict({"value": pa.array(values[at : at + BATCH], pa.binary())})
        for at in range(0, len(values), BATCH)
    ]
    with TemporaryDirectory() as folder:
        began = time.process_time()
        found = blocks(batches, BLOCK_BYTES, BLOCK_ROWS_OF_SCHEMAS)
        decoded = [decoder.decode(each.column("value")).rows for each in found]
        rows = pa.Table.from_batches(decoded)
        if writes:
            LocalWriter(Path(folder), TableDefinition("t", ("id",), buckets=16), rows.schema).commit(rows)
        took = time.process_time() - began
    assert rows.num_rows == len(values), "each message is a row"
    return took


def _row(number: int, version: Sequence[Field]) -> dict[str, Any]:
    texts = {"a": f"customer {number % 1000}", "e": "a note " * 3, "g": f"coupon {number % 100}"}
    row = {"id": f"order {number}", **texts, "b": number / 7, "c": number * 3, "d": number % 2 == 0, "f": number}
    return {name: row[name] for name in ("id", *(each.name for each in version))}


if __name__ == "__main__":
    main()
