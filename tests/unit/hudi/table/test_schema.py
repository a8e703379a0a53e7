import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.log.format import HeaderKey, read_blocks
from bucketingest.hudi.table.schema import (
    META_COLUMNS,
    arrow_to_avro,
    avro_to_arrow,
    decimal_bytes,
    schema_json,
    with_meta_columns,
)
from support.tables.arrow_values import arrow_types
from support.tables.fixtures import JAVA_TABLES, log_files

FIXTURE_COLUMNS = pa.schema(
    {
        "id": pa.string(),
        "name": pa.string(),
        "amt": pa.float64(),
        "n": pa.int32(),
        "big": pa.int64(),
        "d": pa.decimal128(10, 2),
        "dt": pa.date32(),
        "evt": pa.timestamp("us", tz="UTC"),
        "flag": pa.bool_(),
        "tags": pa.list_(pa.string()),
        "ts": pa.int64(),
        "region": pa.string(),
    }
)


def only_type(kind: pa.DataType) -> object:
    (field,) = arrow_to_avro(pa.schema([pa.field("c", kind, nullable=False)]), table_name="t")["fields"]
    return field["type"]


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_the_schema_is_to_the_letter_what_hudi_puts_in_its_blocks(table: str) -> None:
    _, data = next(log_files(table))
    block = next(read_blocks(data))
    name = table.replace("java_v", "t").replace("_", "")
    assert (
        schema_json(with_meta_columns(arrow_to_avro(FIXTURE_COLUMNS, table_name=name)))
        == block.headers[HeaderKey.SCHEMA]
    )


def test_structs_take_the_name_of_their_column_in_the_namespace_of_their_parents() -> None:
    inner = pa.struct([pa.field("d", pa.decimal128(20, 3))])
    schema = arrow_to_avro(pa.schema({"a": pa.list_(pa.struct([pa.field("b", inner)]))}), table_name="shop-1")
    a = schema["fields"][0]["type"][1]["items"][1]
    b = a["fields"][0]["type"][1]
    d = b["fields"][0]["type"][1]
    assert (schema["namespace"], schema["name"]) == ("hoodie.shop__1", "shop__1_record")
    assert (a["namespace"], a["name"]) == ("hoodie.shop__1.shop__1_record", "a")
    assert (b["namespace"], b["name"]) == ("hoodie.shop__1.shop__1_record.a", "b")
    assert (d["namespace"], d["name"], d["size"]) == ("hoodie.shop__1.shop__1_record.a.b.d", "fixed", 9)


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.float32(), "float"),
        (pa.large_string(), "string"),
        (pa.binary(), "bytes"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.timestamp("us", tz="Asia/Tokyo"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
    ],
)
def test_a_required_column_has_the_type_without_union(kind: pa.DataType, avro: object) -> None:
    assert only_type(kind) == avro


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (pa.timestamp("ns"), "cast it to microseconds"),
        (pa.timestamp("us"), "hudi-rs 0.5 cannot open .* cast it to TIMESTAMP or STRING"),
        (pa.uint32(), "signed integer"),
        (pa.decimal256(40, 2), "precision of at most 38"),
        (pa.map_(pa.int32(), pa.string()), "keys to string"),
        (pa.null(), "give it a type"),
        (pa.struct([]), "without fields"),
        (pa.time64("us"), "cast it to a long"),
        (pa.float16(), "cast it to float"),
    ],
)
def test_a_type_that_cannot_be_stored_is_refused_with_its_path_and_remedy(kind: pa.DataType, remedy: str) -> None:
    nested = pa.list_(pa.struct([pa.field("inner", kind)]))
    with pytest.raises(SchemaError, match=rf"column 'outer\.element\.inner': type .* cannot be stored; .*{remedy}"):
        arrow_to_avro(pa.schema({"outer": nested}), table_name="t")


@pytest.mark.parametrize("name", ["1st", "größe", "a b", "", "a.b"])
def test_a_column_name_avro_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="Avro names are ASCII"):
        arrow_to_avro(pa.schema({name: pa.int64()}), table_name="t")


def test_a_schema_of_meta_columns_only_is_refused() -> None:
    with pytest.raises(SchemaError, match="has no columns"):
        arrow_to_avro(pa.schema({name: pa.string() for name in META_COLUMNS}), table_name="t")


@pytest.mark.parametrize(
    ("names", "said"), [(["a", "b", "a"], "a and a"), (["Name", "b", "name", "NAME"], "Name and name and NAME")]
)
def test_names_that_spark_cannot_tell_apart_are_refused_at_any_depth(names: list[str], said: str) -> None:
    fields = [pa.field(name, pa.int32()) for name in names]
    for schema in (pa.schema(fields), pa.schema([("inner", pa.list_(pa.struct(fields)))])):
        with pytest.raises(SchemaError, match=f"cannot tell the columns apart: {said}; rename one of each"):
            arrow_to_avro(schema, table_name="t")


def test_a_struct_that_hudi_takes_for_a_union_is_refused() -> None:
    union = pa.struct([("member0", pa.string()), ("member1", pa.int32())])
    for kind in (union, pa.struct([("member7", pa.int32())]), pa.map_(pa.string(), union)):
        with pytest.raises(SchemaError, match=r"column 'u[a-z.]*': Hudi's readers in Spark take .* for a union"):
            arrow_to_avro(pa.schema([("u", kind)]), table_name="t")
    arrow_to_avro(pa.schema([("u", pa.struct([("member0", pa.string()), ("other", pa.int32())]))]), table_name="t")


def test_meta_columns_of_the_arrow_schema_are_left_out_and_added_once() -> None:
    schema = pa.schema({**{name: pa.string() for name in META_COLUMNS}, "id": pa.string()})
    avro = arrow_to_avro(schema, table_name="t")
    assert [field["name"] for field in avro["fields"]] == ["id"]
    assert with_meta_columns(with_meta_columns(avro)) == with_meta_columns(avro)
    assert avro_to_arrow(with_meta_columns(avro)) == schema


@given(st.lists(st.tuples(arrow_types(), st.booleans()), min_size=1, max_size=4))
def test_any_storable_schema_is_valid_avro_and_comes_back(kinds: list[tuple[pa.DataType, bool]]) -> None:
    schema = pa.schema([pa.field(f"c{i}", *kind) for i, kind in enumerate(kinds)])
    avro = arrow_to_avro(schema, table_name="t")
    fastavro.parse_schema(json.loads(schema_json(avro)))
    back = avro_to_arrow(avro)
    assert arrow_to_avro(back, table_name="t") == avro


@pytest.mark.parametrize(("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)])
def test_a_decimal_has_sparks_byte_size(precision: int, size: int) -> None:
    assert decimal_bytes(precision) == size


def test_other_writers_types_are_read() -> None:
    fields = [
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A"]}},
        {"name": "b", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}]},
        {"name": "m", "type": [{"type": "long", "logicalType": "timestamp-millis"}, "null"]},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
    ]
    assert avro_to_arrow({"type": "record", "name": "r", "fields": fields}) == pa.schema(
        [
            pa.field("e", pa.string(), nullable=False),
            pa.field("b", pa.decimal128(9, 1)),
            pa.field("m", pa.timestamp("ms", tz="UTC")),
            pa.field("u", pa.string(), nullable=False),
        ]
    )


def test_a_union_of_two_types_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"column 'u': union .* has no Arrow type"):
        avro_to_arrow({"type": "record", "name": "r", "fields": [{"name": "u", "type": ["null", "int", "string"]}]})
