"""File names and file ids, compared with those in tables that Hudi wrote."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.naming import (
    BUCKET_MAX,
    BaseFileName,
    LogFileName,
    bucket_of_file_id,
    deterministic_file_id,
    join,
    parse_data_file_name,
)
from support.tables.fixtures import unpack_fixture


def test_the_file_id_of_a_bucket_is_that_of_hudis_non_blocking_mode() -> None:
    assert deterministic_file_id(3) == "00000003-0000-0000-0000-000000000000-0"


@given(st.integers(0, BUCKET_MAX))
def test_a_bucket_survives_the_way_through_its_file_id(bucket: int) -> None:
    assert bucket_of_file_id(deterministic_file_id(bucket)) == bucket


@pytest.mark.parametrize("bucket", [-1, BUCKET_MAX + 1])
def test_a_bucket_that_does_not_fit_a_file_id_is_refused(bucket: int) -> None:
    with pytest.raises(InvalidName, match=str(bucket)):
        deterministic_file_id(bucket)


@pytest.mark.parametrize(
    "file_id", ["", "3", "6f1c9b1e-8f4e-4d2b-9a55-0d7b0a2f7c11-0", "-0000003-0000", "٠٠٠٠٠٠٠٣-0000"]
)
def test_a_file_id_of_another_index_is_refused(file_id: str) -> None:
    with pytest.raises(InvalidName, match="bucket"):
        bucket_of_file_id(file_id)


def test_a_log_file_name_is_taken_apart() -> None:
    name = LogFileName.parse(".00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_20261121081714512.log.1_0-119-320")
    assert name == LogFileName("00000000-a21b-4b6d-a4ef-90dafdb1c65e-0", "20261121081714512", 1, "0-119-320")


def test_a_base_file_name_is_taken_apart() -> None:
    name = BaseFileName.parse("00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_0-113-301_20261121081713004.parquet")
    assert name == BaseFileName("00000000-a21b-4b6d-a4ef-90dafdb1c65e-0", "20261121081713004", "0-113-301")


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "..00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_20261121081714512.log.1_0-119-320.crc",
        ".00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_20261121081714512.log.1_0-119-320.cdc",
        ".00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_0-113-301_20261121081713004.parquet.crc",
        "00000000-a21b-4b6d-a4ef-90dafdb1c65e-0_0-113-301_20261121081713004.parquet.marker.CREATE",
        "readme.txt",
    ],
)
def test_other_names_are_not_data_files(name: str) -> None:
    assert parse_data_file_name(name) is None
    with pytest.raises(InvalidName):
        LogFileName.parse(name)
    with pytest.raises(InvalidName):
        BaseFileName.parse(name)


@pytest.mark.parametrize("fixture", ["java_v8_parquet", "java_v9_avro", "py_then_java_archived"])
def test_every_data_file_of_hudis_tables_parses_and_prints_back(fixture: str, tmp_path: Path) -> None:
    root = unpack_fixture(fixture, tmp_path)
    names = [path.name for path in root.glob("*/*") if path.is_file() and path.parent.name in {"us", "eu"}]
    parsed = {name: parse_data_file_name(name) for name in names}
    data = {name for name in names if not name.endswith((".crc", "metadata"))}
    assert len(data) >= 10
    assert {name for name, file in parsed.items() if file is not None} == data
    assert all(str(file) == name for name, file in parsed.items() if file is not None)


def test_a_file_of_an_unpartitioned_table_lies_at_the_root() -> None:
    assert join("", "f") == "f"
    assert join("us/5", "f") == "us/5/f"
