"""Columns that get a wider type: both readers show every value, of log blocks and base files of before and after, and
of a base file that was merged of both.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from bucketingest.write.errors import LogFilesLeft
from bucketingest.write.open_table import open_table
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows, without_meta_columns
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

pytestmark = pytest.mark.hudi

TEXT: Final = pa.string()
DEFINITION: Final = TableDefinition("widened", ("id",), (), None, buckets=1)
TYPES: Final[dict[str, tuple[pa.DataType, pa.DataType, Any, Any]]] = {
    "int_long": (pa.int32(), pa.int64(), -(2**31), 2**60),
    "int_double": (pa.int32(), pa.float64(), 2**31 - 1, 0.5),
    "float_double": (pa.float32(), pa.float64(), 0.1, 0.1),
    "decimal": (pa.decimal128(6, 2), pa.decimal128(25, 2), Decimal("-1234.56"), Decimal("12345678901234567890.12")),
}
"""Of a column its types, and a value, before and after."""


def rows(after: bool, *ids: str) -> pa.Table:
    columns = {name: pa.array([each[2 + after]] * len(ids), each[after]) for name, each in TYPES.items()}
    return pa.table({"id": pa.array(ids, pa.string()), **columns})


def wide(*tables: pa.Table) -> pa.Table:
    """All rows, as the table has them in the end."""
    values = [row for table in tables for row in table.to_pylist()]
    for row in values:
        row["float_double"] = 0.1
    return pa.Table.from_pylist(values, rows(True).schema)


INSIDE: Final = tuple(
    pa.schema(
        [("id", pa.string()), ("s", kind), ("l", pa.list_(pa.field("element", kind))), ("m", pa.map_(TEXT, kind))]
    )
    for kind in (
        pa.struct([("x", pa.int32()), ("name", TEXT)]),
        pa.struct([("x", pa.int64()), ("name", TEXT), ("y", pa.float64())]),
    )
)
"""Columns with fields inside, before and after."""


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_fields_inside_columns_are_read_after_the_log_files_of_before_are_merged(
    hudi: HudiOracle, tmp_path: Path, block: LogBlock
) -> None:
    def of(values: dict[str, Any], schema: pa.Schema) -> pa.Table:
        rows = [{"id": each, "s": s, "l": [s, None], "m": [("k", s)]} for each, s in values.items()]
        return pa.Table.from_pylist(rows, schema)

    old, new = INSIDE
    before = {"a": {"x": 1, "name": "n"}, "b": {"x": 2}, "e": None}
    LocalWriter(tmp_path, DEFINITION, old, log_block=block).commit(of(before, old))
    with pytest.raises(LogFilesLeft, match=r"^s\.y, l\.element\.y, m\.value\.y, s\.x, l\.element\.x, m\.value\.x of "):
        open_table(open_storage(str(tmp_path)), DEFINITION, new)
    after = {"b": {"x": 2**40, "name": "m", "y": 0.5}, "c": {"y": 1.5}}
    LocalWriter(tmp_path, DEFINITION, new, log_block=block).commit(of(after, new))
    for _ in range(2):
        expected = of({**before, **after}, new)
        assert_same_rows(without_meta_columns(hudi.snapshot(tmp_path)), expected, ["id"])
        assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), expected, ["id"])
        compact(open_storage(str(tmp_path)))
    # an old producer goes on
    late = {"d": {"x": 3, "name": "old"}}
    LocalWriter(tmp_path, DEFINITION, old, log_block=block).commit(of(late, old))
    found = without_meta_columns(hudi_rs.snapshot(tmp_path))
    assert_same_rows(found, of({**before, **after, **late}, new), ["id"])


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_a_column_is_added_after_another_got_a_wider_type(tmp_path: Path, block: LogBlock) -> None:
    """hudi-rs fills up the log blocks that lack the new one: it takes no narrower type in them."""
    before, after = rows(False, "a"), rows(True, "b")
    LocalWriter(tmp_path, DEFINITION, before.schema, log_block=block).commit(before)
    with pytest.raises(LogFilesLeft):
        open_table(open_storage(str(tmp_path)), DEFINITION, after.schema)
    LocalWriter(tmp_path, DEFINITION, after.schema, log_block=block).commit(after)
    more = rows(True, "c").append_column("note", pa.array(["new"]))
    LocalWriter(tmp_path, DEFINITION, more.schema, log_block=block).commit(more)
    expected = pa.concat_tables([wide(before, after), more], promote_options="default")
    assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), expected, ["id"])


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_a_column_is_added_beside_a_decimal_in_a_record(tmp_path: Path, block: LogBlock) -> None:
    price = pa.struct([("amount", pa.decimal128(9, 2))])
    before = pa.table({"id": ["a"], "price": pa.array([{"amount": Decimal("1.25")}], price)})
    after = before.set_column(0, "id", [["b"]]).append_column("note", pa.array(["new"]))
    LocalWriter(tmp_path, DEFINITION, before.schema, log_block=block).commit(before)
    with pytest.raises(LogFilesLeft):
        open_table(open_storage(str(tmp_path)), DEFINITION, after.schema)
    LocalWriter(tmp_path, DEFINITION, after.schema, log_block=block).commit(after)
    expected = pa.concat_tables([before, after], promote_options="default")
    assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), expected, ["id"])


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_values_of_both_types_are_read_and_merged(hudi: HudiOracle, tmp_path: Path, block: LogBlock) -> None:
    before, after = rows(False, "a", "b"), rows(True, "b", "c")
    LocalWriter(tmp_path, DEFINITION, before.schema, log_block=block).commit(before)
    LocalWriter(tmp_path, DEFINITION, after.schema, log_block=block).commit(after)
    expected = wide(before.slice(0, 1), after)
    for _ in range(2):
        assert_same_rows(without_meta_columns(hudi.snapshot(tmp_path)), expected, ["id"])
        assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), expected, ["id"])
        compact(open_storage(str(tmp_path)))
    # an old producer goes on
    late = rows(False, "d")
    LocalWriter(tmp_path, DEFINITION, late.schema, log_block=block).commit(late)
    assert_same_rows(without_meta_columns(hudi_rs.snapshot(tmp_path)), wide(expected, late), ["id"])
