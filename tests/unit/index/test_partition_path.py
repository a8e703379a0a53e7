from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.errors import InvalidKeyRule, MissingKeyColumn, UnsupportedKeyType
from bucketingest.index.partition_path import DEFAULT_PARTITION, PartitionPathRule, PartitionPaths, refusal
from bucketingest.storage import PathRoom, path_room
from support.tables.hudi_vectors import keygen_vectors

VECTORS = keygen_vectors()


def paths_of(
    columns: dict[str, pa.Array | list[object]], *, hive_style: bool = False, levels: int | None = None
) -> PartitionPaths:
    return PartitionPathRule(tuple(columns), hive_style, levels).paths(pa.record_batch(columns))


def refused_of(found: PartitionPaths) -> list[bool]:
    return [False] * len(found.paths) if found.refused is None else found.refused.to_pylist()


def paths_hudi_made(case: str) -> list[str]:
    return sorted(path for _, _, path in VECTORS[case].rows)


def test_null_empty_and_odd_strings_make_hudis_paths() -> None:
    found = paths_of({"region": ["x=y z%é", None, "a/b", ""]})
    assert sorted(found.paths.to_pylist()) == paths_hudi_made("partnull")


def test_text_that_spark_would_show_as_null_is_refused_and_null_is_not() -> None:
    found = paths_of({"region": [None, "", DEFAULT_PARTITION, "eu"]})
    assert refused_of(found) == [False, True, True, False]
    assert found.reason_of_row(0) is None
    assert (
        found.reason_of_row(1)
        == "partition value '': Hudi's Spark reader would show null; replace it in spec.transform.sql"
    )
    assert found.paths.to_pylist() == [DEFAULT_PARTITION] * 3 + ["eu"]


@pytest.mark.parametrize(
    ("value", "hive_style", "why"),
    [
        ("%41", False, "would decode"), ("a%2fb", True, "would decode"), ("a=b", False, "what follows ="),
        ("a/b", False, "has not 1 levels"), ("a/b", True, "has not 1 levels"), ("a:b", False, "colon"),
        ("a=b", True, None), ("100%", False, None), ("%zz", False, None), ("a b", False, None),
    ],
)  # fmt: skip
def test_what_spark_would_misread_is_refused(value: str, hive_style: bool, why: str | None) -> None:
    reason = paths_of({"region": [value]}, hive_style=hive_style).reason_of_row(0)
    assert reason is None if why is None else why in (reason or "")


def test_values_have_as_many_slashes_as_the_tables_others() -> None:
    found = paths_of({"day": ["2026/01/02", "2026/01", "2026/01/02/03"]}, levels=3)
    assert refused_of(found) == [False, True, True]


def test_hive_style_names_the_field() -> None:
    assert sorted(paths_of({"region": [None, "us"]}, hive_style=True).paths.to_pylist()) == paths_hudi_made("hive")


def test_several_fields_make_several_levels() -> None:
    assert paths_of({"region": ["us"], "i": pa.array([5], pa.int32())}).paths.to_pylist() == paths_hudi_made("multi")


def test_a_date_has_its_record_key_text() -> None:
    assert paths_of({"dt": [date(2024, 1, 2)]}).paths.to_pylist() == paths_hudi_made("partdate")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float32(), pa.float64()])
def test_a_type_that_readers_or_writers_do_not_read_alike_is_refused_with_the_way_out(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedKeyType, match=r"column 'p' .*(partition by a DATE|cast it to DECIMAL)"):
        PartitionPathRule(("p",)).check(pa.schema([("p", kind)]))


def test_a_table_without_partition_fields_has_the_empty_path() -> None:
    found = PartitionPathRule(()).paths(pa.record_batch({"x": [1, 2, 3]}))
    assert found.paths.to_pylist() == [""] * 3
    assert found.refused is None


def test_a_batch_without_rows_has_no_paths() -> None:
    found = paths_of({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})
    assert len(found.paths) == 0
    assert found.refused is None


values = st.none() | st.sampled_from(["", "a", "b", "a/b", "b/a", "é", DEFAULT_PARTITION])


@given(st.lists(st.tuples(values, values, st.none() | st.integers(0, 3)), max_size=20), st.booleans())
def test_paths_are_those_of_each_row_and_each_has_one_code(
    rows: list[tuple[str | None, str | None, int | None]], hive_style: bool
) -> None:
    columns = [
        pa.array([row[i] for row in rows], kind) for i, kind in enumerate((pa.string(), pa.string(), pa.int64()))
    ]
    columns[1] = columns[1].dictionary_encode()
    found = PartitionPathRule(("p", "q", "r"), hive_style).paths(pa.record_batch(columns, ["p", "q", "r"]))
    expected = [
        "/".join(
            (f"{name}=" if hive_style else "") + (str(value) if value not in {None, ""} else DEFAULT_PARTITION)
            for name, value in zip("pqr", row, strict=True)
        )
        for row in rows
    ]
    assert found.paths.to_pylist() == expected
    assert found.paths.type == pa.dictionary(pa.int32(), pa.string())
    assert refused_of(found) == ["" in row or DEFAULT_PARTITION in row or "a/b" in row or "b/a" in row for row in rows]
    kept = [path for path, reason in zip(found.paths.dictionary.to_pylist(), found.reasons, strict=True) if not reason]
    assert sorted(kept) == sorted({path for path, no in zip(expected, refused_of(found), strict=True) if not no})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("/etc", "absolute"), ("..", "level '..'"), ("a/../../b", "level '..'"), ("./a", "level '.'"),
        ("a//b", "empty level"), ("a/", "empty level"), (".hoodie", "Hudi's own"),
        ("a/.hoodie_partition_metadata", "Hudi's own"), ("a\nb", "control character"), ("a\x00", "control character"),
        ("a\x85b", "control character"), ("é" * 513, "more than 1024 bytes"), ("10:30", "a colon"),
    ],
)  # fmt: skip
def test_a_dangerous_value_is_refused_with_its_reason_and_others_are_not(value: str, reason: str) -> None:
    found = paths_of({"p": ["us", value, None, value]})
    assert found.refused is not None
    assert found.refused.to_pylist() == [False, True, False, True]
    assert reason in (found.reason_of_row(1) or "")
    assert found.reason_of_row(0) is None


def test_bytes_that_are_not_text_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"us\xff\xfe")])
    found = paths_of({"p": broken})
    assert found.refused is not None
    assert found.refused.to_pylist() == [False, True]
    assert "not valid UTF-8" in (found.reason_of_row(1) or "")
    found.paths.dictionary.validate(full=True)


@pytest.mark.parametrize("path", ["us", "a/b", "x=y z%é", ".hidden", "a..b", "region=..", "é" * 512])
def test_harmless_paths_are_not_refused(path: str) -> None:
    assert refusal(path) is None


@pytest.mark.parametrize("prefix", ["", "lake", "a/" * 200 + "orders", "é" * 300])
def test_a_path_is_refused_just_when_a_key_below_the_root_would_be_too_long(prefix: str) -> None:
    room = path_room(f"s3://bucket/{prefix}")
    root = f"{prefix}/" if prefix else ""
    longest_name = "00000000-0000-0000-0000-000000000000-0_99999-99999-99999_20261121090000000.parquet"
    around = len(f"{root}.hoodie/.temp/20261121090000000//{longest_name}.marker.CREATE".encode())
    for path in ("é" * ((1024 - around) // 2), "x" * (1024 - around)):
        assert refusal(path, room) is None
        assert "the table's storage allows" in (refusal(f"{path}xx", room) or "")


def test_a_level_is_measured_in_bytes() -> None:
    room = PathRoom(level=255)
    assert refusal("a/" + "é" * 127 + "/b", room) is None
    assert "more than 255 bytes" in (refusal("a/" + "é" * 128 + "/b", room) or "")
    assert refusal("é" * 128) is None, "object stores have no such limit"


def test_fields_that_cannot_be_a_path_are_refused_at_plan_time() -> None:
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(UnsupportedKeyType, match="'tags'"):
        PartitionPathRule(("tags",)).check(schema)
    with pytest.raises(MissingKeyColumn, match="'region'"):
        PartitionPathRule(("region",)).check(schema)
    with pytest.raises(InvalidKeyRule, match="twice"):
        PartitionPathRule(("p", "p"))
