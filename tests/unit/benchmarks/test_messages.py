from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fastavro import schemaless_reader
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bench.data import ORDERS, write_input
from bench.messages import Encoding, message_format, messages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_input(ORDERS, tmp_path / "in", rows=50, seed=0)
    return tmp_path / "in"


def test_messages_are_json_objects_of_the_rows(folder: Path) -> None:
    for row, message in _rows_and_messages(folder, "json"):
        read = json.loads(message, parse_float=Decimal)
        assert read["order_id"] == row["order_id"]
        assert read["amount"] == row["amount"]
        assert float(read["price"]) == row["price"]
        assert read["flag"] is row["flag"]
        assert read["updated_at"] == row["updated_at"].isoformat().replace("+00:00", "Z")


def test_messages_are_avro_records_of_the_rows(folder: Path) -> None:
    schema = json.loads(message_format(ORDERS, "avro")["schema"])
    for row, message in _rows_and_messages(folder, "avro"):
        assert schemaless_reader(io.BytesIO(message), schema) == row


def test_messages_are_protobuf_of_the_rows_with_decimals_as_numbers_of_their_smallest_unit(folder: Path) -> None:
    form = message_format(ORDERS, "protobuf")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(form["schema"])).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(form["messageName"]))
    for row, message in _rows_and_messages(folder, "protobuf"):
        read = kind.FromString(message)
        assert (read.order_id, read.quantity, read.price) == (row["order_id"], row["quantity"], row["price"])
        assert read.HasField("flag")
        assert read.flag is row["flag"]
        assert read.amount == int(row["amount"] * 100)
        assert read.updated_at.ToDatetime(row["updated_at"].tzinfo) == row["updated_at"]


def _rows_and_messages(folder: Path, encoding: Encoding) -> Iterator[tuple[dict[str, Any], bytes]]:
    rows = pq.read_table(folder).to_pylist()
    for row, (key, message) in zip(rows, messages(folder, ORDERS, encoding), strict=True):
        assert key.decode() == row["order_id"]
        yield row, message
