"""The topics that Debezium wrote, as Confluent's Avro converter would have written them."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from typing import Any, Final

import fastavro

from support.decoding.debezium_streams import Stream, records_of
from support.decoding.registered_avro import header

VALUES: Final = 1
KEYS: Final = 2
"""Ids of the schemas of `encoded`."""


def typed(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A type that Debezium names."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def micro_timestamp() -> dict[str, Any]:
    return typed("long", "io.debezium.time.MicroTimestamp")


DECIMAL: Final = typed(
    "bytes", "org.apache.kafka.connect.data.Decimal", logicalType="decimal", precision=10, scale=2
)  # AvroData copies the scale and the precision
VARIABLE: Final = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.version": 1,
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
ORDERS: Final[dict[str, Any]] = {
    "customer": "string",
    "amount": DECIMAL,
    "big_text": "string",
    "ts": typed("string", "io.debezium.time.ZonedTimestamp"),
    "tsl": micro_timestamp(),
    "d": typed("int", "io.debezium.time.Date"),
    "t": typed("long", "io.debezium.time.MicroTime"),
    "js": typed("string", "io.debezium.data.Json"),
    "u": typed("string", "io.debezium.data.Uuid"),
    "arr": {"type": "array", "items": ["null", "int"]},
    "b": "bytes",
    "iv": typed("long", "io.debezium.time.MicroDuration"),
    "m": DECIMAL,
    "n": VARIABLE,
    "extra": "string",
}
"""The columns of `postgres.orders` but for the key."""
TOAST: Final[dict[str, Any]] = {"grp": "string", "big": "string", "ts": ORDERS["ts"]}


def row_schema(columns: dict[str, Any]) -> dict[str, Any]:
    """Of an image; its key is `id`."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns.items()]
    return {"type": "record", "name": "Value", "namespace": "shop.inv.orders", "fields": fields}


def event_schema(columns: dict[str, Any]) -> dict[str, Any]:
    """Of a value."""
    source = [{"name": "table", "type": "string"}, {"name": "lsn", "type": ["null", "long"], "default": None}]
    fields = [
        {"name": "before", "type": ["null", row_schema(columns)], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "shop.inv.orders", "fields": fields}


KEY_SCHEMA: Final = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.inv.orders",
    "fields": [{"name": "id", "type": "long"}],
}


def event(columns: dict[str, Any], value: dict[str, Any], schema_id: int = VALUES) -> bytes:
    """An event's message. Values of the images are as JSON has them."""
    images = {name: _image(columns, value.get(name)) for name in ("before", "after")}
    source = {"table": "orders", "lsn": (value.get("source") or {}).get("lsn")}
    return message(schema_id, event_schema(columns), {"ts_ms": 1, **value, **images, "source": source})


def key(number: int, schema_id: int = KEYS) -> bytes:
    """A key's message."""
    return message(schema_id, KEY_SCHEMA, {"id": number})


def message(schema_id: int, schema: Any, value: Any) -> bytes:
    """Any message behind its header."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return header(schema_id) + out.getvalue()


def encoded(name: Stream, columns: dict[str, Any], values: int = VALUES, keys: int = KEYS) -> list[Any]:
    """Key and value of each record of a topic."""
    found = []
    for written_key, value in records_of(name):
        number = None if written_key is None else json.loads(written_key)["id"]
        found.append(
            (
                None if number is None else key(number, keys),
                None if value is None else event(columns, json.loads(value), values),
            )
        )
    return found


def _image(columns: dict[str, Any], image: dict[str, Any] | None) -> dict[str, Any] | None:
    if image is None:
        return None
    return {"id": image["id"]} | {name: _value(kind, image.get(name)) for name, kind in columns.items()}


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if kind == "bytes":
        return base64.b64decode(value) if isinstance(value, str) else value
    if kind == DECIMAL:
        return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-2)
    if kind == VARIABLE:
        return {"scale": value["scale"], "value": base64.b64decode(value["value"])}
    return value
