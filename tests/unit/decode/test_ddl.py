"""Types in Spark's DDL as Arrow's, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of, type_in_ddl


@pytest.mark.parametrize(
    "name",
    [
        *("STRING", "BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"),
        *("TIMESTAMP", "DECIMAL(10,2)", "ARRAY<INT>", "MAP<STRING,DOUBLE>", "STRUCT<a: INT, b: ARRAY<STRING>>"),
    ],
)
def test_a_type_is_named_as_a_schema_names_it(name: str) -> None:
    assert type_in_ddl(columns_of(f"c {name}").field("c").type) == name


def test_a_type_that_no_schema_names_is_named_in_arrows_words() -> None:
    assert [type_in_ddl(kind) for kind in (pa.timestamp("us"), pa.uint8())] == ["TIMESTAMP_NTZ", "uint8"]
