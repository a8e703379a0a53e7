"""Types in Spark's DDL as Arrow's, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import UnreadableDdl, columns_of, type_in_ddl


@pytest.mark.parametrize(
    "name",
    [
        *("STRING", "BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"),
        *("TIMESTAMP", "DECIMAL(10,2)", "ARRAY<INT>", "MAP<STRING,DOUBLE>", "STRUCT<a: INT, b: ARRAY<STRING>>"),
    ],
)
def test_a_type_is_named_as_a_schema_names_it(name: str) -> None:
    assert type_in_ddl(columns_of(f"c {name}").field("c").type) == name


@pytest.mark.parametrize("name", ["TIMESTAMP_NTZ", "MAP<INT,ARRAY<TIMESTAMP_NTZ>>"])
def test_values_that_bring_their_types_have_further_ones(name: str) -> None:
    assert type_in_ddl(columns_of(f"c {name}", typed=True).field("c").type) == name
    with pytest.raises(UnreadableDdl, match=r"TIMESTAMP_NTZ|keys of another type"):
        columns_of(f"c {name}")


def test_a_type_that_no_schema_names_is_named_in_arrows_words() -> None:
    assert [type_in_ddl(kind) for kind in (pa.timestamp("us"), pa.uint8())] == ["TIMESTAMP_NTZ", "uint8"]
