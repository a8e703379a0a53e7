import re

import pyarrow as pa
import pytest

from bucketingest.hudi.table.schema import arrow_to_avro, avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.schema_evolution import Fit, SchemaComparison, compare_schemas
from support.tables.schema_changes import CHANGES, Change

ID = pa.field("id", pa.string(), nullable=False)
AMOUNT = pa.field("amount", pa.decimal128(10, 2))
NUMBER = pa.field("n", pa.int64())
FIXED = pa.field("key", pa.int64())
CITY = pa.field("city", pa.string())
ADDRESS = pa.field("address", pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.list_(pa.int32()))]))


def compared(table: list[pa.Field], incoming: list[pa.Field], *, incoming_name: str = "t") -> SchemaComparison:
    stored, arriving = arrow_to_avro(pa.schema(table), table_name="t"), pa.schema(incoming)
    return compare_schemas(with_meta_columns(stored), arrow_to_avro(arriving, table_name=incoming_name), ["key"])


def test_the_same_columns_in_another_order_and_of_another_record_name_are_the_same() -> None:
    result = compared([ID, AMOUNT, ADDRESS], [ADDRESS, AMOUNT, ID], incoming_name="other")
    assert result.fit is Fit.SAME
    assert avro_to_arrow(result.schema).names == ["id", "amount", "address"]
    assert (result.added, result.missing, result.reasons) == ((), (), ())


def test_new_nullable_columns_are_appended() -> None:
    result = compared([ID], [pa.field("note", pa.string()), ID, AMOUNT])
    assert (result.fit, result.added) == (Fit.EVOLVED, ("note", "amount"))
    assert avro_to_arrow(result.schema).names == ["id", "note", "amount"]


def test_a_nullable_column_the_input_lacks_is_to_be_filled_with_null() -> None:
    result = compared([ID, AMOUNT], [ID])
    assert (result.fit, result.missing) == (Fit.SAME, ("amount",))
    assert avro_to_arrow(result.schema).names == ["id", "amount"]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(20, 2)),
    ],
)
def test_a_column_gets_the_wider_type_and_keeps_it(narrow: pa.DataType, wide: pa.DataType) -> None:
    result = compared([ID, NUMBER.with_type(narrow)], [NUMBER.with_type(wide), ID])
    assert (result.fit, result.widened, result.needs_merge) == (Fit.EVOLVED, ("n",), ("n",))
    assert avro_to_arrow(result.schema) == pa.schema([ID, NUMBER.with_type(wide)])
    back = compared([ID, NUMBER.with_type(wide)], [ID, NUMBER.with_type(narrow)])
    assert (back.fit, back.widened, back.needs_merge) == (Fit.SAME, (), ())
    assert avro_to_arrow(back.schema) == pa.schema([ID, NUMBER.with_type(wide)])


PLACE = pa.struct([pa.field("x", pa.int32()), pa.field("name", pa.string())])
WIDER = pa.struct([pa.field("x", pa.int64()), pa.field("name", pa.string()), pa.field("y", pa.float64())])


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("n", PLACE, WIDER),
        ("n.element", pa.list_(pa.field("element", PLACE)), pa.list_(pa.field("element", WIDER))),
        ("n.value", pa.map_(pa.string(), PLACE), pa.map_(pa.string(), WIDER)),
    ],
)
def test_fields_inside_a_column_are_added_and_get_wider_types(
    path: str, before: pa.DataType, after: pa.DataType
) -> None:
    result = compared([ID, NUMBER.with_type(before)], [ID, NUMBER.with_type(after)])
    assert (result.fit, result.needs_merge) == (Fit.EVOLVED, (f"{path}.y", f"{path}.x"))
    assert avro_to_arrow(result.schema) == pa.schema([ID, NUMBER.with_type(after)])
    back = compared([ID, NUMBER.with_type(after)], [ID, NUMBER.with_type(before)])
    assert (back.fit, back.needs_merge) == (Fit.SAME, ())
    assert avro_to_arrow(back.schema) == pa.schema([ID, NUMBER.with_type(after)])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (pa.list_(pa.int32()), ("note",)),
        (pa.map_(pa.string(), pa.int32()), ("note",)),
        (pa.struct([pa.field("l", pa.list_(pa.int32()))]), ("note",)),
        (pa.struct([pa.field("d", pa.decimal128(9, 2))]), ("note",)),
        (pa.struct([pa.field("x", pa.int32())]), ()),
        (pa.decimal128(9, 2), ()),
    ],
)
def test_log_files_are_merged_before_a_column_is_added_beside_what_no_reader_fills_up(
    kind: pa.DataType, names: tuple[str, ...]
) -> None:
    column = pa.field("l", kind)
    assert compared([ID, column], [ID, column, pa.field("note", pa.string())]).needs_merge == names
    assert compared([ID, column], [ID, column]).needs_merge == ()
    assert compared([ID], [ID, column]).needs_merge == ()


def test_a_value_that_is_always_there_fits_a_nullable_column() -> None:
    assert compared([pa.field("id", pa.string())], [ID]).fit is Fit.SAME


@pytest.mark.parametrize(
    ("table", "incoming", "reason"),
    [
        ([ID, AMOUNT], [ID, AMOUNT.with_type(pa.decimal128(10, 3))], r"'amount' is decimal\(10,2\) .* decimal\(10,3\)"),
        ([NUMBER], [NUMBER.with_type(pa.float32())], "'n' is long in the table but float in the input"),
        ([NUMBER], [NUMBER.with_type(pa.float64())], "'n' is long in the table but double in the input"),
        (
            [NUMBER.with_nullable(False).with_type(pa.int32())],
            [NUMBER],
            "'n' is required by the table but nullable in the input",
        ),
        ([FIXED.with_type(pa.int32())], [FIXED], "'key' is int in the table but long in the input"),
        ([ID], [ID.with_type(pa.int64())], "'id' is string in the table but long in the input; cast it"),
        ([ID], [ID.with_nullable(True)], "'id' is required by the table but nullable in the input"),
        ([ID], [AMOUNT], "'id' is required by the table but missing"),
        ([ID], [ID, pa.field("n", pa.int32(), nullable=False)], "'n' is new and not nullable"),
        (
            [pa.field("address", pa.struct([CITY.with_nullable(False)]))],
            [pa.field("address", pa.struct([pa.field("zip", pa.string())]))],
            "'address.city' is required by the table but missing",
        ),
        (
            [pa.field("address", pa.struct([CITY]))],
            [pa.field("address", pa.struct([pa.field("City", pa.string())]))],
            "'address.City' is 'address.city' in the table",
        ),
        (
            [pa.field("address", pa.struct([CITY]))],
            [pa.field("address", pa.struct([CITY, pa.field("zip", pa.string(), nullable=False)]))],
            "'address.zip' is new and not nullable",
        ),
        (
            [pa.field("place", pa.struct([pa.field("x", pa.float64())]))],
            [pa.field("place", pa.struct([pa.field("x", pa.int64())]))],
            "'place.x' is double in the table but long in the input",
        ),
        (
            [pa.field("l", pa.list_(pa.field("element", pa.int32(), nullable=False)))],
            [pa.field("l", pa.list_(pa.int32()))],
            r"'l\.element' is required",
        ),
        (
            [pa.field("m", pa.map_(pa.string(), pa.int64()))],
            [pa.field("m", pa.map_(pa.string(), pa.timestamp("us", tz="UTC")))],
            r"'m\.value' is long in the table but timestamp-micros",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_column(
    table: list[pa.Field], incoming: list[pa.Field], reason: str
) -> None:
    result = compared(table, incoming)
    assert result.fit is Fit.REFUSED
    assert re.search(reason, "; ".join(result.reasons))


def test_every_reason_is_listed() -> None:
    result = compared([ID, AMOUNT], [ID.with_type(pa.int64()), AMOUNT.with_type(pa.float64())])
    assert len(result.reasons) == 2


def test_a_column_whose_name_differs_in_case_only_is_no_new_one() -> None:
    result = compared([ID, pa.field("name", pa.string())], [ID, pa.field("Name", pa.string())])
    assert result.fit is Fit.REFUSED
    (reason,) = result.reasons
    assert reason.startswith("column 'Name' is 'name' in the table: Spark's readers cannot tell them apart")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_each_change_is_taken_when_its_readers_can_read_it(change: Change) -> None:
    before, after = ([ID, *filter(None, [change.field(after=after)])] for after in (False, True))
    found = compared(before, after)
    when = "never" if found.fit is Fit.REFUSED else "after a merge" if found.needs_merge else "at once"
    assert when == change.when
    assert all(change.name in each for each in found.reasons)
