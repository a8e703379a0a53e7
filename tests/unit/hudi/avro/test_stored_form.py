import pyarrow as pa
import pytest
from hypothesis import given

from bucketingest.hudi.avro.stored_form import stored_form
from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.table.schema import arrow_to_avro
from support.tables.arrow_values import arrow_types

REQUIRED = pa.struct([pa.field("small", pa.int16()), pa.field("flag", pa.bool_(), nullable=False)])


def as_spark_sends_it(kind: pa.StructType, fields: list[pa.Array], valid: int) -> pa.Array:
    """A struct array whose null structs have null fields, also those that are required."""
    return pa.Array.from_buffers(kind, len(fields[0]), [pa.py_buffer(bytes([valid]))], children=fields)


@given(arrow_types())
def test_the_stored_type_has_the_same_avro_type_and_no_small_integers(kind: pa.DataType) -> None:
    table = pa.table({"c": pa.nulls(2, kind)})
    stored = stored_form(table)
    assert arrow_to_avro(stored.schema, table_name="t") == arrow_to_avro(table.schema, table_name="t")
    assert "int8" not in str(stored.schema)
    assert "int16" not in str(stored.schema)
    assert stored["c"].null_count == 2
    stored.validate(full=True)


def test_small_integers_in_lists_and_maps_are_widened_also_in_a_slice() -> None:
    lists = pa.array([[9], [1, None], None, [2]], pa.list_(pa.int8()))
    maps = pa.array([[("z", 9)], [("a", 1)], None, []], pa.map_(pa.string(), pa.int16()))
    stored = stored_form(pa.table({"l": lists, "m": maps}).slice(1))
    stored.validate(full=True)
    assert stored.to_pydict() == {"l": [[1, None], None, [2]], "m": [[("a", 1)], None, []]}
    assert stored["l"].type.value_type == pa.int32()


def test_required_fields_of_a_null_struct_do_not_count_as_nulls() -> None:
    fields = [pa.array([1, None, 3], pa.int16()), pa.array([True, None, False])]
    table = pa.table({"s": as_spark_sends_it(REQUIRED, fields, 0b101)})
    for part in (table, table.slice(1)):
        stored = stored_form(part)
        expected = [{"small": 1, "flag": True}, None, {"small": 3, "flag": False}]
        assert stored["s"].to_pylist() == expected[-part.num_rows :]
        assert stored["s"].chunk(0).field("flag").null_count == 0


@pytest.mark.parametrize(
    "field", [pa.array([[1], None], pa.list_(pa.int8())), pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8()))]
)
def test_required_lists_and_maps_of_a_null_struct_do_not_count_as_nulls(field: pa.Array) -> None:
    kind = pa.struct([pa.field("inner", field.type, nullable=False)])
    stored = stored_form(pa.table({"s": as_spark_sends_it(kind, [field], 0b01)}))
    assert stored["s"].to_pylist() == [{"inner": field[0].as_py()}, None]
    assert stored["s"].chunk(0).field("inner").null_count == 0


def test_required_structs_of_a_null_struct_do_not_count_as_nulls() -> None:
    inner = as_spark_sends_it(REQUIRED, [pa.array([1, None], pa.int16()), pa.array([True, None])], 0b01)
    kind = pa.struct([pa.field("inner", REQUIRED, nullable=False)])
    stored = stored_form(pa.table({"s": as_spark_sends_it(kind, [inner], 0b01)}))
    assert stored["s"].to_pylist() == [{"inner": {"small": 1, "flag": True}}, None]
    assert stored["s"].chunk(0).field("inner").null_count == 0


def test_a_null_in_a_required_field_of_a_struct_that_is_there_is_refused() -> None:
    fields = [pa.array([1, None], pa.int16()), pa.array([True, None])]
    with pytest.raises(SchemaError, match="'flag' is not nullable but has 1 nulls"):
        stored_form(pa.table({"s": as_spark_sends_it(REQUIRED, fields, 0b11)}))


def test_columns_that_need_no_change_are_not_copied() -> None:
    text = pa.array(["a", "b"])
    stored = stored_form(pa.table({"t": text}).replace_schema_metadata({"k": "v"}))
    assert stored["t"].chunk(0).buffers()[2].address == text.buffers()[2].address
    assert stored.schema.metadata is None
