import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.log.blocks import avro_data_block, delete_block, parquet_data_block
from bucketingest.hudi.log.format import BlockType, Buffer, HeaderKey
from bucketingest.hudi.log.reader import LogContent, read_log
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from support.tables.arrow_values import arrow_types, as_given, to_arrow, values

INSTANT = "20261121081714512"


def constant(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def with_meta(table: pa.Table) -> pa.Table:
    """The rows as the writer hands them on: constant meta columns are dictionaries of one value."""
    count = table.num_rows
    numbers = pa.array([f"{INSTANT}_0_{i}" for i in range(count)], pa.string())
    keys = pa.array([f"key-{i}" for i in range(count)], pa.string())
    meta = [constant(INSTANT, count), numbers, keys, constant("eu", count), constant("00000003-0000", count)]
    return pa.table([*meta, *table.columns], schema=_meta_schema(meta, table.schema))


def _meta_schema(meta: list[pa.Array], schema: pa.Schema) -> pa.Schema:
    return pa.schema([*(pa.field(n, a.type) for n, a in zip(META_COLUMNS, meta, strict=True)), *schema])


def header_schema(table: pa.Table) -> str:
    return schema_json(with_meta_columns(arrow_to_avro(table.schema, table_name="t")))


def written_and_read(block: list[Buffer]) -> LogContent:
    (content,) = read_log(b"".join(bytes(part) for part in block))
    return content


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Random rows, sliced out of more, as Arrow columns and as Python values."""
    kinds = draw(st.lists(st.tuples(arrow_types(), st.booleans()), min_size=1, max_size=4))
    schema = pa.schema([pa.field(f"c{i}", *kind) for i, kind in enumerate(kinds)])
    rows = draw(st.lists(st.fixed_dictionaries({f.name: values(f) for f in schema}), min_size=1, max_size=6))
    skipped = draw(st.integers(0, len(rows) - 1))
    columns = [to_arrow(field, [row[field.name] for row in rows]) for field in schema]
    return pa.table(columns, schema=schema).slice(skipped), rows[skipped:]


@pytest.mark.parametrize("block", [parquet_data_block, avro_data_block])
@given(case=tables())
def test_rows_of_any_type_are_read_back_from_a_data_block(
    block: Any, case: tuple[pa.Table, list[dict[str, Any]]]
) -> None:
    plain, rows = case
    table = with_meta(plain)
    header = header_schema(table)
    content = written_and_read(block(table, instant_time=INSTANT, avro_schema_json=header))
    assert content.block.headers == {HeaderKey.SCHEMA: header, HeaderKey.INSTANT_TIME: INSTANT}
    assert content.rows is not None
    assert content.rows.select(META_COLUMNS).to_pylist() == table.select(META_COLUMNS).to_pylist()
    kind = pa.struct(list(plain.schema))
    assert [as_given(kind, row) for row in content.rows.to_pylist()] == rows
    assert arrow_to_avro(content.rows.schema, table_name="t") == arrow_to_avro(plain.schema, table_name="t")


def test_a_parquet_block_holds_one_row_group_of_plain_hudi_types() -> None:
    table = with_meta(
        pa.table(
            {
                "small": pa.array([1, None], pa.int8()),
                "d": pa.array([Decimal("1.00"), None], pa.decimal128(10, 2)),
                "at": pa.array([1, None], pa.timestamp("us", tz="Europe/Berlin")),
            }
        )
    )
    content = written_and_read(parquet_data_block(table, instant_time=INSTANT, avro_schema_json=header_schema(table)))
    file = pq.ParquetFile(pa.BufferReader(content.block.content))
    columns = {file.schema.column(i).name: file.schema.column(i) for i in range(len(file.schema))}
    assert file.metadata.num_row_groups == 1
    assert content.block.type is BlockType.PARQUET
    assert {columns[name].logical_type.type for name in META_COLUMNS} == {"STRING"}
    assert (columns["small"].physical_type, columns["small"].logical_type.type) == ("INT32", "NONE")
    assert (columns["d"].physical_type, columns["d"].length) == ("FIXED_LEN_BYTE_ARRAY", 5)
    assert json.loads(columns["at"].logical_type.to_json())["isAdjustedToUTC"] is True
    assert file.schema_arrow.metadata is None


@pytest.mark.parametrize(("compression", "level"), [("zstd", 3), ("snappy", None), ("none", None), ("gzip", 1)])
def test_other_codecs_can_be_chosen(compression: str, level: int | None) -> None:
    table = with_meta(pa.table({"n": [1, 2]}))
    block = parquet_data_block(table, instant_time=INSTANT, avro_schema_json="{}", compression=compression, level=level)
    file = pq.ParquetFile(pa.BufferReader(written_and_read(block).block.content))
    expected = "UNCOMPRESSED" if compression == "none" else compression.upper()
    assert file.metadata.row_group(0).column(0).compression == expected


@pytest.mark.parametrize(("rows", "codec"), [(100, "SNAPPY"), (20_000, "ZSTD")])
def test_few_rows_are_compressed_by_what_begins_fast(rows: int, codec: str) -> None:
    table = with_meta(pa.table({"n": range(rows)}))
    content = written_and_read(parquet_data_block(table, instant_time=INSTANT, avro_schema_json=header_schema(table)))
    group = pq.ParquetFile(pa.BufferReader(content.block.content)).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {codec}
    assert content.rows is not None
    assert content.rows["n"].to_pylist() == list(range(rows))


def test_an_avro_block_without_rows_is_read() -> None:
    table = with_meta(pa.table({"n": pa.array([], pa.int64())}))
    content = written_and_read(avro_data_block(table, instant_time=INSTANT, avro_schema_json=header_schema(table)))
    assert content.rows is not None
    assert content.rows.num_rows == 0


@pytest.mark.parametrize("block", [parquet_data_block, avro_data_block])
def test_nulls_in_a_required_column_are_refused_by_name(block: Any) -> None:
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = with_meta(pa.Table.from_arrays([pa.array([1, None])], schema=required))
    with pytest.raises(SchemaError, match="'id' is not nullable but has 1 nulls"):
        block(table, instant_time=INSTANT, avro_schema_json="{}")


@pytest.mark.parametrize("block", [parquet_data_block, avro_data_block])
def test_a_table_without_meta_columns_is_refused(block: Any) -> None:
    with pytest.raises(ValueError, match="first columns are _hoodie_commit_time"):
        block(pa.table({"n": [1]}), instant_time=INSTANT, avro_schema_json="{}")


def test_a_delete_block_is_written_in_the_instant_with_the_schema() -> None:
    content = written_and_read(delete_block(pa.array(["a"]), "eu", None, instant_time=INSTANT, avro_schema_json="{}"))
    assert content.block.type is BlockType.DELETE
    assert content.block.headers == {HeaderKey.SCHEMA: "{}", HeaderKey.INSTANT_TIME: INSTANT}
    assert [delete.record_key for delete in content.deletes] == ["a"]


def test_dates_before_1970_are_stored_as_they_are() -> None:
    days = [dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    table = with_meta(pa.table({"d": pa.array(days)}))
    for block in (parquet_data_block, avro_data_block):
        content = written_and_read(block(table, instant_time=INSTANT, avro_schema_json=header_schema(table)))
        assert content.rows is not None
        assert content.rows["d"].to_pylist() == days
