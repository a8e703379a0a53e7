"""The table's columns in the words of Hive and of Spark: an Avro schema to Hive's types and to Spark's JSON. Pure.

The forms are those that Hudi 1.2.0's HiveSyncTool registers with `--support-timestamp`; tests compare with it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from bucketingest.hudi.table.schema import AvroSchema

_HIVE: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
}
_COMMENT_MAX: Final = 255
"""Bytes. Glue takes no more (`CommentString` in botocore's model of glue-2017-03-31 has 255 characters, its developer
guide 255 bytes), and a metastore's database 256 characters: with a longer one no table would be made.
"""
_NOT_IN_GLUE: Final = re.compile("[^\t\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What that model's pattern of a comment excludes."""
_SPARK: Final = {**_HIVE, "int": "integer", "long": "long"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column as Hive knows it: names and types in lower case."""

    name: str
    type: str
    comment: str = ""


def hive_columns(schema: AvroSchema) -> tuple[Column, ...]:
    """The fields of a record, in its order."""
    return tuple(Column(f["name"].lower(), _hive(f["type"]).lower(), _comment(f.get("doc"))) for f in schema["fields"])


def _comment(doc: str | None) -> str:
    """One line, as Glue demands, of a length that both take."""
    line = " ".join(_NOT_IN_GLUE.sub(" ", doc or "").split())
    return line.encode()[:_COMMENT_MAX].decode(errors="ignore")


def spark_json(schema: AvroSchema, last: tuple[str, ...]) -> str:
    """The schema as Spark stores it in a table's parameters. `last`: partition columns, which come last."""
    fields = {field["name"]: field for field in schema["fields"]}
    names = [name for name in fields if name not in last] + [name for name in last if name in fields]
    text = json.dumps(_spark_struct([fields[name] for name in names]), separators=(",", ":"), ensure_ascii=False)
    # Hudi's sync writes a blank here, and takes a text without it for another schema. Names have no quotes.
    return re.sub(r'("type":"(?:array|map)"),', r"\1, ", text)


def _hive(avro: Any) -> str:
    kind, _ = _unwrapped(avro)
    if kind.get("logicalType") == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    match kind["type"]:
        case "array":
            return f"array<{_hive(kind['items'])}>"
        case "map":
            return f"map<string,{_hive(kind['values'])}>"
        case "record":
            fields = [f"{field['name']}:{_hive(field['type'])}" for field in kind["fields"]]
            return f"struct<{','.join(fields)}>"
    return _HIVE.get(kind.get("logicalType", ""), "") or _HIVE[kind["type"]]


def _spark(avro: Any) -> Any:
    kind, _ = _unwrapped(avro)
    if kind.get("logicalType") == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    match kind["type"]:
        case "array":
            nullable = _unwrapped(kind["items"])[1]
            return {"type": "array", "elementType": _spark(kind["items"]), "containsNull": nullable}
        case "map":
            value, nullable = _spark(kind["values"]), _unwrapped(kind["values"])[1]
            return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}
        case "record":
            return _spark_struct(kind["fields"])
    return _SPARK.get(kind.get("logicalType", ""), "") or _SPARK[kind["type"]]


def _spark_struct(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": f["name"], "type": _spark(f["type"]), "nullable": _unwrapped(f["type"])[1], "metadata": {}}
            for f in fields
        ],
    }


def _unwrapped(avro: Any) -> tuple[dict[str, Any], bool]:
    """The type without null, as a mapping, and whether it may be null."""
    nullable = isinstance(avro, list)
    if nullable:
        avro = next(branch for branch in avro if branch != "null")
    return (avro if isinstance(avro, dict) else {"type": avro}), nullable
