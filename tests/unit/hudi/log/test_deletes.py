import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.log.blocks import delete_block
from bucketingest.hudi.log.deletes import delete_contents
from bucketingest.hudi.log.format import BlockType, HeaderKey, read_blocks
from bucketingest.hudi.log.reader import Delete, read_log
from support.tables.fixtures import DELETED_KEYS, HUDI_FIXTURES, log_files

SCHEMA = fastavro.parse_schema(json.loads((HUDI_FIXTURES / "avsc" / "HoodieDeleteRecordList.avsc").read_text()))


def content(keys: list[str], partition: str, ordering: pa.Array | None) -> bytes:
    (parts,) = delete_contents(pa.array(keys, pa.string()), partition, ordering)
    return b"".join(bytes(part) for part in parts)


def deletes(keys: list[str], partition: str, ordering: pa.Array | None) -> list[Delete]:
    block = delete_block(pa.array(keys, pa.string()), partition, ordering, instant_time="1", avro_schema_json="{}")
    return [delete for read in read_log(b"".join(bytes(part) for part in block)) for delete in read.deletes]


def test_a_delete_has_the_bytes_hudi_wrote_for_it() -> None:
    """Hudi's Spark writer gives its deletes the int 0, which means: by commit time."""
    for path, data in log_files("java_v9_avro"):
        for block in read_blocks(data):
            if block.type is BlockType.DELETE:
                keys = [key for key in DELETED_KEYS if key.encode() in block.content.tobytes()]
                own = delete_block(
                    pa.array(keys),
                    path.partition("/")[0],
                    pa.array([0], pa.int32()),
                    instant_time=block.instant_time,
                    avro_schema_json=block.headers[HeaderKey.SCHEMA],
                )
                assert b"".join(bytes(part) for part in own) == data


@pytest.mark.parametrize(
    ("ordering", "wrapper", "values"),
    [
        (pa.array([5, -7], pa.int64()), "LongWrapper", [5, -7]),
        (pa.array([5, -7], pa.int32()), "IntWrapper", [5, -7]),
        (pa.array([5, -7], pa.int8()), "IntWrapper", [5, -7]),
        (pa.array([1_700_000_000_123_456, 0], pa.timestamp("us", tz="UTC")), "LongWrapper", [1_700_000_000_123_456, 0]),
        (pa.array([dt.date(1970, 1, 3), dt.date(1969, 12, 31)]), "IntWrapper", [2, -1]),
        (pa.array(["b", ""]), "StringWrapper", ["b", ""]),
        (pa.array([1.5, -0.25]), "DoubleWrapper", [1.5, -0.25]),
        (pa.array([1.5, -0.25], pa.float32()), "FloatWrapper", [1.5, -0.25]),
        (pa.array([True, False]), "BooleanWrapper", [True, False]),
        (
            pa.array([Decimal("123456789012.34"), Decimal("-0.01")], pa.decimal128(14, 2)),
            "DecimalWrapper",
            [Decimal("123456789012.340000000000000"), Decimal("-0.010000000000000")],
        ),
    ],
)
def test_the_ordering_value_has_the_wrapper_hudis_reader_compares_with(
    ordering: pa.Array, wrapper: str, values: list[Any]
) -> None:
    assert deletes(["k1", "k2"], "eu", ordering) == [
        Delete(key, "eu", value, wrapper) for key, value in zip(["k1", "k2"], values, strict=True)
    ]


def test_without_ordering_values_deletes_are_by_commit_time_as_hudi_writes_them() -> None:
    assert deletes(["k1"], "", None) == [Delete("k1", "", 0, "IntWrapper")]


def test_null_ordering_values_are_by_commit_time_in_a_block_of_their_own() -> None:
    ordering = pa.array([None, Decimal("1.5"), None], pa.decimal128(4, 1))
    block = delete_block(pa.array(["a", "b", "c"]), "eu", ordering, instant_time="1", avro_schema_json="{}")
    assert [list(read.deletes) for read in read_log(b"".join(bytes(part) for part in block))] == [
        [Delete("a", "eu", 0, "IntWrapper"), Delete("c", "eu", 0, "IntWrapper")],
        [Delete("b", "eu", Decimal("1.500000000000000"), "DecimalWrapper")],
    ]


def test_ordering_values_that_are_all_null_make_one_block() -> None:
    assert len(delete_contents(pa.array(["a", "b"]), "eu", pa.nulls(2, pa.int64()))) == 1


@given(st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1))), st.text())
def test_any_deletes_are_encoded_as_fastavro_encodes_them(rows: list[tuple[str, int]], partition: str) -> None:
    out = io.BytesIO()
    listed = [
        {
            "recordKey": key,
            "partitionPath": partition,
            "orderingVal": ("org.apache.hudi.avro.model.LongWrapper", {"value": value}),
        }
        for key, value in rows
    ]
    fastavro.schemaless_writer(out, SCHEMA, {"deleteRecordList": listed})
    own = content([key for key, _ in rows], partition, pa.array([value for _, value in rows], pa.int64()))
    assert own == b"\0\0\0\3" + len(out.getvalue()).to_bytes(4, "big") + out.getvalue()


def test_more_deletes_than_one_chunk_are_all_there_in_order() -> None:
    keys = [f"key-{i}" for i in range(40_000)]
    found = deletes(keys, "eu", pa.array(range(40_000)))
    assert [(delete.record_key, delete.ordering) for delete in found] == list(zip(keys, range(40_000), strict=True))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.decimal128(30, 16), "at most 15 digits before and 15 after"),
        (pa.decimal128(18, 2), "at most 15 digits before and 15 after"),
        (pa.binary(), "a delete cannot hold an ordering value of type binary"),
        (pa.list_(pa.int64()), "a delete cannot hold an ordering value of type list"),
    ],
)
def test_an_ordering_type_hudis_deletes_cannot_hold_is_refused(kind: pa.DataType, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        content(["a"], "eu", pa.nulls(1, kind))


def test_null_keys_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of the record keys to delete are null"):
        delete_contents(pa.array(["a", None]), "eu", None)
    with pytest.raises(ValueError, match="2 record keys but 1 ordering values"):
        delete_contents(pa.array(["a", "b"]), "eu", pa.array([1]))
