"""What messages with an envelope, and tables without a key, cost beside plain messages: rows per CPU second of decoding
and writing the same rows, and their ratio to those of plain JSON or Avro.

Needs no Spark: messages are decoded and written in this process, by the project's own decoders and write path.
Run it with PYTHONPATH=tests from the project's folder.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.ddl import columns_of
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import DELETED, EventRules
from bucketingest.decode.debezium.heads import with_heads_apart
from bucketingest.decode.debezium.registered import RegisteredDebeziumDecoder
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.kafka.columns import MessageColumns
from bucketingest.decode.kafka.message import KEY, VALUE
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.stream.source.messages import BLOCK_BYTES, BLOCK_BYTES_OF_EVENTS, BlockDecoder, MessageDecoder, blocks
from support.decoding.registered_avro import header
from support.tables.local_writer import LocalWriter

BATCH: Final = 1000
"""Messages of a batch, as the reader of Kafka makes them."""
TYPES: Final = {
    "id": "int64",
    "customer": "string",
    "amount": "double",
    "quantity": "int64",
    "paid": "boolean",
    "note": "string",
    "at": "string",
}
COLUMNS: Final = columns_of(
    "id BIGINT, customer STRING, amount DOUBLE, quantity BIGINT, paid BOOLEAN, note STRING, at TIMESTAMP"
)
AVRO_TYPES: Final = {"int64": "long", "string": "string", "double": "double", "boolean": "boolean"}
WITH_PLACE: Final = "plain JSON with these columns"
"""Topic, partition and offset are columns, as a table without a key has them, and the key is one of the message."""
PLACE: Final = {"topic": "_topic", "partition": "_partition", "offset": "_offset"}
SOURCE: Final = {
    "version": "3.6.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1795763482878,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["26935496","26938448"]',
    "ts_us": 1795763482878830,
    "ts_ns": 1795763482878830000,
    "schema": "inv",
    "table": "orders",
    "txId": 764,
    "lsn": 26938448,
    "xmin": None,
    "origin": None,
}


@dataclass(frozen=True)
class Form:
    """How messages are, and the table that they become."""

    values: list[bytes]
    decoder: MessageDecoder
    key: tuple[str, ...] = ("id",)
    plain: str = "plain JSON"
    """The form beside which it is measured."""
    schema: str = ""
    """Of Avro."""


def main() -> None:
    """Print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    forms = {**json_forms(given.rows), **avro_forms(given.rows)}
    best = dict.fromkeys(forms, 0.0)
    for _, (name, form) in itertools.product(range(given.repetitions), forms.items()):
        with TemporaryDirectory() as folder:
            best[name] = max(best[name], given.rows / _cpu_seconds(Path(folder), form))
    print("| messages | bytes of one | rows per CPU second | of the plain form |")
    print("| --- | --- | --- | --- |")
    for name, rate in best.items():
        print(f"| {name} | {len(forms[name].values[-1])} | {rate:,.0f} | {rate / best[forms[name].plain]:.2f} |")


def json_forms(rows: int) -> dict[str, Form]:
    """Those in JSON, with so many messages each."""
    plain = [_json(_row(number)) for number in range(rows)]
    events = [_json(_event(number)) for number in range(rows)]
    schema = _json(_schema())
    of_events = _events(EventRules(full=False, stops=True))
    flat = _events(EventRules(full=False, stops=True, flat=True))
    return {
        "plain JSON": Form(plain, _decoder(JsonDecoder(COLUMNS))),
        "Debezium, no schema": Form(events, of_events),
        "Debezium, with schema": Form([b'{"schema":%s,"payload":%s}' % (schema, each) for each in events], of_events),
        "Debezium, flat": Form(plain, flat),
        "plain JSON, appended": Form(
            plain, _decoder(JsonDecoder(COLUMNS), columns=MessageColumns(PLACE)), tuple(PLACE.values()), WITH_PLACE
        ),
        WITH_PLACE: Form(plain, _decoder(JsonDecoder(COLUMNS), columns=MessageColumns(PLACE))),
    }


def avro_forms(rows: int) -> dict[str, Form]:
    """Those in Avro."""
    fields = [{"name": name, "type": ["null", AVRO_TYPES[kind]], "default": None} for name, kind in TYPES.items()]
    row = {"type": "record", "name": "Value", "fields": fields}
    source = [{"name": name, "type": ["null", "string"], "default": None} for name in SOURCE]
    others = {"source": {"type": "record", "name": "Source", "fields": source}, "op": "string", "ts_ms": "long"}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    members = [*images, *({"name": name, "type": kind} for name, kind in others.items())]
    event = {"type": "record", "name": "Envelope", "fields": members}
    said = {name: None if value is None else str(value) for name, value in SOURCE.items()}
    given = [{**_event(number), "source": said} for number in range(rows)]
    schema = pa.schema([(each.name, pa.string() if each.name == "at" else each.type) for each in COLUMNS])
    plain = RegisteredAvroDecoder(json.dumps(row), schema, {1: WriterSchema(json.dumps(row))})
    rules = EventRules(full=False, stops=True)
    writers = {1: WriterSchema(json.dumps(event))}
    events = RegisteredDebeziumDecoder(json.dumps(row), with_deleted(schema), writers, rules)
    return {
        "plain Avro": Form(
            _avro(row, [_row(number) for number in range(rows)]),
            _decoder(plain),
            plain="plain Avro",
            schema=json.dumps(row),
        ),
        "Debezium, Avro": Form(
            _avro(event, given),
            _decoder(events, decoded=(VALUE, KEY)),
            plain="plain Avro",
            schema=json.dumps(event),
        ),
    }


def _avro(schema: dict[str, Any], values: list[dict[str, Any]]) -> list[bytes]:
    parsed, found = fastavro.parse_schema(schema), []
    for value in values:
        out = io.BytesIO(header(1))
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, parsed, value)
        found.append(out.getvalue())
    return found


def _cpu_seconds(folder: Path, form: Form) -> float:
    batches = list(_batches(form.values))
    began = time.process_time()
    short = map(form.decoder.shorten, batches) if form.decoder.shorten else batches
    decoded = [form.decoder.decode(each).rows for each in blocks(short, form.decoder.block_bytes)]
    rows = pa.Table.from_batches(decoded)
    deleted = DELETED if DELETED in rows.column_names else None
    schema = pa.schema([each for each in rows.schema if each.name != DELETED])
    writer = LocalWriter(folder, TableDefinition("t", form.key, buckets=16), schema, deleted=deleted)
    writer.commit(rows)
    took = time.process_time() - began
    assert rows.num_rows == len(form.values), "each message is a row"
    return took


def _batches(values: list[bytes]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(values), BATCH):
        some = pa.array(values[start : start + BATCH], pa.binary())
        columns = {
            VALUE: some,
            KEY: pa.nulls(len(some), pa.binary()),
            "topic": pa.array(["orders"] * len(some)),
            "partition": pa.array(np.zeros(len(some), np.int32)),
            "offset": pa.array(np.arange(start, start + len(some))),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _decoder(blocks_of: BlockDecoder, **more: Any) -> MessageDecoder:
    return MessageDecoder(blocks_of, "", "", **{"block_bytes": BLOCK_BYTES, **more})


def _events(rules: EventRules) -> MessageDecoder:
    decoder = DebeziumDecoder(with_deleted(COLUMNS), 0, rules)
    return _decoder(decoder, decoded=(VALUE, KEY), block_bytes=BLOCK_BYTES_OF_EVENTS, shorten=with_heads_apart)


def _row(number: int) -> dict[str, Any]:
    texts = {"customer": f"customer {number % 1000}", "note": "a note " * 3, "at": "2026-11-27T07:05:23.321185Z"}
    return {"id": number, **texts, "amount": number / 7, "quantity": number * 3, "paid": number % 2 == 0}


def _event(number: int) -> dict[str, Any]:
    times = {"ts_ms": 1795763483131, "ts_us": 1795763483131428, "ts_ns": 1795763483131428000}
    return {"before": None, "after": _row(number), "source": SOURCE, "transaction": None, "op": "c", **times}


def _schema() -> dict[str, Any]:
    fields = [{"type": kind, "optional": True, "field": name} for name, kind in TYPES.items()]
    images = [
        {"type": "struct", "fields": fields, "optional": True, "name": "shop.inv.orders.Value", "field": name}
        for name in ("before", "after")
    ]
    source = [{"type": "string", "optional": True, "field": name} for name in SOURCE]
    others = [{"type": "struct", "fields": source, "optional": False, "name": "Source", "field": "source"}]
    others += [{"type": "string", "optional": False, "field": "op"}, {"type": "int64", "field": "ts_ms"}]
    name = "shop.inv.orders.Envelope"
    return {"type": "struct", "fields": [*images, *others], "optional": False, "name": name, "version": 2}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
