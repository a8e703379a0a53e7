import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log.blocks import parquet_data_block
from bucketingest.hudi.log.format import BlockType, HeaderKey, frame_block, read_blocks
from bucketingest.hudi.log.reader import Delete, LogContent, decode_block, read_log
from bucketingest.hudi.table.schema import META_COLUMNS
from support.tables.fixtures import DELETED_KEYS, JAVA_TABLES, KEYS_WITHOUT_TAGS, UPSERTED_KEYS_IN_LOGS, log_files


def contents(table: str) -> list[LogContent]:
    return [content for path, data in log_files(table) for content in read_log(data, source=path)]


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_rows_hudi_wrote_are_read(table: str) -> None:
    rows = [row for content in contents(table) if content.rows for row in content.rows.to_pylist()]
    by_key = {row["_hoodie_record_key"]: row for row in rows}
    assert by_key.keys() == UPSERTED_KEYS_IN_LOGS
    row = by_key["key-0004"]
    file_id, instant = row.pop("_hoodie_file_name"), row.pop("_hoodie_commit_time")
    assert file_id.startswith("00000001-")
    assert row.pop("_hoodie_commit_seqno").startswith(f"{instant}_5_")
    assert row == {
        "_hoodie_record_key": "key-0004",
        "_hoodie_partition_path": "us",
        "id": "key-0004",
        "name": "name4-v2",
        "amt": 8.0,
        "n": 4,
        "big": 40_000_000_000,
        "d": Decimal("1.00"),
        "dt": dt.date(2024, 1, 5),
        "evt": dt.datetime(2024, 1, 1, 0, 0, 4, 123456, tzinfo=dt.UTC),
        "flag": True,
        "tags": ["t4", "x"],
        "ts": 1002,
        "region": "us",
    }


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_rows_have_their_meta_columns_first_and_null_where_hudi_wrote_null(table: str) -> None:
    tables = [content.rows for content in contents(table) if content.rows]
    assert all(tuple(rows.column_names[:5]) == META_COLUMNS for rows in tables)
    assert {row["id"] for rows in tables for row in rows.to_pylist() if row["tags"] is None} == KEYS_WITHOUT_TAGS


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_deletes_hudi_wrote_are_read(table: str) -> None:
    deletes = {delete for content in contents(table) for delete in content.deletes}
    assert deletes == {Delete(key, "eu", 0, "IntWrapper") for key in DELETED_KEYS}


def test_each_block_is_read_with_its_instant() -> None:
    found = contents("java_v9_parquet")
    assert {(c.block.type, c.block.instant_time) for c in found} == {
        (BlockType.PARQUET, "20261121081719103"),
        (BlockType.DELETE, "20261121081720544"),
    }


def framed(kind: BlockType, content: bytes) -> bytes:
    headers = {HeaderKey.SCHEMA: '{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}'}
    return b"".join(frame_block(kind, headers, [content]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (framed(BlockType.AVRO_DATA, b"\0\0\0\2\0\0\0\0"), "version 2; only 3"),
        (framed(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\1\0\0\0\7\2"), "cut short: its row 0 has 7 bytes"),
        (framed(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\1\0\0\0\1\2\2"), "1 bytes after its 1 rows"),
        (framed(BlockType.AVRO_DATA, b"\0\0"), "cannot be decoded"),
        (framed(BlockType.DELETE, b"\0\0\0\3\0\0\0\2\0"), "have 2 bytes, but they have 1"),
        (framed(BlockType.PARQUET, b"PAR1 or not"), "cannot be decoded"),
        (framed(BlockType.CDC, b""), "of type CDC"),
    ],
)
def test_content_that_is_not_what_the_block_says_is_corrupt(data: bytes, said: str) -> None:
    with pytest.raises(CorruptLog, match=f"some.log: the block at byte 0 .*{said}"):
        list(read_log(data, source="some.log"))


def test_an_avro_block_is_read_with_the_schema_in_its_header() -> None:
    (content,) = read_log(framed(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\2\0\0\0\1\2\0\0\0\1\3"))
    assert content.rows == pa.table({"n": [1, -2]}, schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_some_rows_of_a_block_are_those_of_all(table: str) -> None:
    for content in contents(table):
        if content.rows is None:
            continue
        count = content.rows.num_rows
        for wanted in map(pa.array, (range(0), range(1), range(0, count, 2), range(count))):
            some = decode_block(content.block, ["_hoodie_record_key"], wanted.cast(pa.int64()).to_numpy()).rows
            assert some == content.rows.select(["_hoodie_record_key"]).take(wanted.cast(pa.int64()))


def test_values_of_rows_that_are_not_wanted_are_not_decoded() -> None:
    (content,) = read_log(framed(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\2\0\0\0\1\2\0\0\0\1\3"))
    broken = framed(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\2\0\0\0\1\2\0\0\0\1\x83")
    (block,) = read_blocks(broken)
    assert content.rows is not None
    assert decode_block(block, rows=np.array([0])).rows == content.rows.slice(0, 1)
    with pytest.raises(CorruptLog, match="ends within a value"):
        decode_block(block, rows=np.array([1]))


def test_no_byte_of_a_parquet_blocks_page_changes_without_an_error() -> None:
    rows = pa.table({**dict.fromkeys(META_COLUMNS, ["x"] * 50), "v": pa.array(range(10**9, 10**9 + 50))})
    data = b"".join(map(bytes, parquet_data_block(rows, instant_time="1", avro_schema_json="{}")))
    ((content, right),) = [(bytes(each.block.content), each.rows) for each in read_log(data)]
    start = data.index(content)
    values = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0).column(len(META_COLUMNS))
    first = start + values.data_page_offset
    for at in range(first, first + values.total_compressed_size, 5):
        try:
            ((found),) = [each.rows for each in read_log(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])]
        except CorruptLog:
            continue
        assert found is not None
        assert found.equals(right), at
