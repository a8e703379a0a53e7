"""Both of Hudi's readers on our log files: every column type, and deletes by every kind of ordering column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.hudi.log.blocks import avro_data_block, delete_block, parquet_data_block
from bucketingest.hudi.log.format import Buffer
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.storage.factory import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle

pytestmark = pytest.mark.hudi

FILE_ID = deterministic_file_id(0)
BLOCKS: dict[str, Callable[..., list[Buffer]]] = {
    "parquet": partial(parquet_data_block, compression="zstd", level=1),
    "parquet-of-few-rows": parquet_data_block,
    "avro": avro_data_block,
}


class WrittenTable:
    """A table of one partition and one bucket, written commit by commit without any of the write path above blocks."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.storage = open_storage(str(path))
        avro = arrow_to_avro(schema, table_name="t")
        self.table_schema = schema_json(avro)
        self.block_schema = schema_json(with_meta_columns(avro))
        self.commits = 0
        definition = TableDefinition(name="t", record_key=("id",), partition_fields=("region",), ordering_field="at")
        create_table(self.storage, definition)

    def commit(self, blocks: Sequence[Buffer], instant: str) -> None:
        data = b"".join(bytes(part) for part in blocks)
        name = LogFileName(FILE_ID, instant, 1)
        create_requested(self.storage, instant)
        create_inflight(self.storage, instant)
        ensure_partition_metadata(self.storage, "eu", instant)
        self.storage.create(f"eu/{name}", data)
        stat = WriteStat.of_log_file("eu", name, size=len(data))
        metadata = CommitMetadata({"eu": [stat]}, {"schema": self.table_schema})
        complete(self.storage, instant, str(int(instant) + 5), metadata.encode())

    def rows(self, rows: pa.Table, instant: str, block: str) -> list[Buffer]:
        zeros = pa.array(np.zeros(rows.num_rows, np.int32))
        meta = {
            "_hoodie_commit_time": pa.DictionaryArray.from_arrays(zeros, pa.array([instant])),
            "_hoodie_commit_seqno": pa.array([f"{instant}_0_{i}" for i in range(rows.num_rows)]),
            "_hoodie_record_key": rows["id"],
            "_hoodie_partition_path": pa.DictionaryArray.from_arrays(zeros, pa.array(["eu"])),
            "_hoodie_file_name": pa.DictionaryArray.from_arrays(zeros, pa.array([FILE_ID])),
        }
        fields = [*(pa.field(name, meta[name].type) for name in META_COLUMNS), *rows.schema]
        table = pa.table([*meta.values(), *rows.columns], schema=pa.schema(fields))
        return BLOCKS[block](table, instant_time=instant, avro_schema_json=self.block_schema)


def every_type() -> pa.Table:
    inner = pa.struct([pa.field("n", pa.int64()), pa.field("d", pa.decimal128(20, 3)), pa.field("s", pa.string())])
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 123456)  # noqa: DTZ001
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "id": (pa.string(), ["k1", "k2"]),
        "region": (pa.string(), ["eu", "eu"]),
        "at": (pa.timestamp("us", tz="UTC"), [moment.replace(tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
        "text": (pa.string(), ["naïve 日本語 😀", None]),
        "tiny": (pa.int8(), [-128, None]),
        "small": (pa.int16(), [-32768, None]),
        "whole": (pa.int32(), [-(2**31), None]),
        "big": (pa.int64(), [-(2**63), None]),
        "single": (pa.float32(), [0.5, None]),
        "double": (pa.float64(), [-0.1, None]),
        "flag": (pa.bool_(), [True, None]),
        "raw": (pa.binary(), [b"\x00\xff", None]),
        "money": (pa.decimal128(10, 2), [Decimal("-12.50"), None]),
        "huge": (pa.decimal128(38, 9), [Decimal("-12345678901234567890123456789.123456789"), None]),
        "day": (pa.date32(), [dt.date(1969, 12, 31), None]),
        "tags": (pa.list_(pa.string()), [["a", None, ""], None]),
        "numbers": (pa.list_(pa.int64()), [[], None]),
        "inner": (inner, [{"n": 1, "d": Decimal("-0.001"), "s": None}, None]),
        "inners": (pa.list_(inner), [[{"n": None, "d": None, "s": "x"}, None], None]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], None]),
        "maps": (pa.map_(pa.string(), inner), [[("a", {"n": 5, "d": Decimal("1.000"), "s": "y"})], None]),
    }
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


def as_python(table: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    return sorted(table.select(columns).to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("block", BLOCKS)
def test_hudi_reads_columns_of_every_type(tmp_path: Path, hudi: HudiOracle, block: str) -> None:
    rows = every_type()
    table = WrittenTable(tmp_path / "t", rows.schema)
    table.commit(table.rows(rows, "20261101000000000", block), "20261101000000000")
    expected = as_python(rows, rows.column_names)
    assert as_python(hudi.snapshot(tmp_path / "t"), rows.column_names) == expected


@pytest.mark.parametrize("block", ["parquet", "avro"])
def test_hudi_rs_reads_columns_of_every_type(tmp_path: Path, block: str) -> None:
    rows = every_type()
    table = WrittenTable(tmp_path / "t", rows.schema)
    table.commit(table.rows(rows, "20261101000000000", block), "20261101000000000")
    expected = as_python(rows, rows.column_names)
    assert as_python(hudi_rs.snapshot(tmp_path / "t"), rows.column_names) == expected


ORDERINGS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [10, 20, 30]),
    "int": (pa.int32(), [10, 20, 30]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [dt.datetime(2026, 1, d, tzinfo=dt.UTC) for d in (1, 2, 3)]),
    "date": (pa.date32(), [dt.date(2026, 1, d) for d in (1, 2, 3)]),
    "string": (pa.string(), ["a", "b", "c"]),
    "double": (pa.float64(), [-1.5, 0.25, 3.5]),
    "float": (pa.float32(), [-1.5, 0.25, 3.5]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("2.25"), Decimal("10.00")]),
    "wide decimal": (pa.decimal128(20, 5), [Decimal("-1.50000"), Decimal("2.25000"), Decimal("123456789012345.5")]),
}


@pytest.mark.parametrize("block", ["parquet", "avro"])
@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("reader", ["hudi", "hudi-rs"])
def test_a_delete_wins_only_over_lower_ordering_values(
    tmp_path: Path, hudi: HudiOracle, block: str, ordering: str, reader: str
) -> None:
    kind, (low, middle, high) = ORDERINGS[ordering]
    keys = ["deleted late", "deleted early", "deleted by commit", "kept"]
    rows = pa.table({"id": keys, "region": ["eu"] * 4, "at": pa.array([middle] * 4, kind)})
    table = WrittenTable(tmp_path / "t", rows.schema)
    table.commit(table.rows(rows, "20261101000000000", block), "20261101000000000")
    deletes = delete_block(
        rows["id"].combine_chunks().slice(0, 3),
        "eu",
        pa.array([high, low, None], kind),
        instant_time="20261101000000010",
        avro_schema_json=table.block_schema,
    )
    table.commit(deletes, "20261101000000010")
    read = hudi.snapshot(tmp_path / "t") if reader == "hudi" else hudi_rs.snapshot(tmp_path / "t")
    assert sorted(read["id"].to_pylist()) == ["deleted early", "kept"]
