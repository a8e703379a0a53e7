"""The judges must be right themselves: they read tables that Hudi wrote, whose rows are known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows, without_meta_columns
from support.oracle.environment import (
    OracleEnvironment,
    OracleError,
    OracleTimeoutError,
    OracleUnavailableError,
    find_environment,
)
from support.oracle.writer import HudiWriter

pytestmark = [pytest.mark.integration, pytest.mark.hudi]

FIXTURES = ["java_v8_avro", "java_v8_parquet", "java_v9_avro", "java_v9_parquet"]
SURVIVORS = [0, 1, 2, 4, 6, 7, 8, 9, 10, 11]
WRITER = HudiWriter(name="t9parquet", record_key=["id"], partition_by=["region"], ordering="ts")


@pytest.fixture(params=FIXTURES)
def table(request: pytest.FixtureRequest, hudi_written_table: Callable[[str], Path]) -> Path:
    """Each of the tables that Hudi wrote, one after the other."""
    return hudi_written_table(request.param)


@pytest.fixture
def v9_table(hudi_written_table: Callable[[str], Path]) -> Path:
    """The table that bucketingest's defaults resemble most."""
    return hudi_written_table("java_v9_parquet")


def assert_survivors(rows: pa.Table) -> None:
    """The fixtures' README: ten keys survive, all in their second version."""
    names = [f"key-{i:04d}" for i in SURVIVORS]
    assert sorted(rows["id"].to_pylist()) == names
    assert sorted(rows["name"].to_pylist()) == sorted(f"name{i}-v2" for i in SURVIVORS)
    assert set(rows["ts"].to_pylist()) == {1002}
    assert rows["_hoodie_record_key"].to_pylist() == rows["id"].to_pylist()


def new_version(rows: pa.Table, ts: int) -> pa.Table:
    """The same keys with a new name and ordering value, without Hudi's meta columns."""
    rows = without_meta_columns(rows)
    rows = rows.set_column(rows.column_names.index("name"), "name", pa.array(["new"] * rows.num_rows))
    return rows.set_column(rows.column_names.index("ts"), "ts", pa.array([ts] * rows.num_rows, pa.int64()))


def test_spark_reads_the_snapshot(hudi: HudiOracle, table: Path) -> None:
    assert_survivors(hudi.snapshot(table))


def test_hudi_rs_reads_the_snapshot(table: Path) -> None:
    assert_survivors(hudi_rs.snapshot(table))


def test_both_judges_agree_on_every_value_and_type(hudi: HudiOracle, table: Path) -> None:
    assert_same_rows(hudi_rs.snapshot(table), hudi.snapshot(table), key=["id"])


def test_values_of_all_types_arrive_unharmed(hudi: HudiOracle, table: Path) -> None:
    schema = hudi.snapshot(table).schema

    assert schema.field("d").type == pa.decimal128(10, 2)
    assert schema.field("dt").type == pa.date32()
    assert schema.field("evt").type == pa.timestamp("us", "UTC")
    row = hudi.snapshot(table).sort_by("id").slice(0, 1).to_pylist()[0]
    assert isinstance(row["d"], Decimal)
    assert isinstance(row["dt"], date)
    assert isinstance(row["evt"], datetime)
    assert row["evt"].utcoffset() == datetime.now(UTC).utcoffset()


def test_incremental_reads_start_after_a_completion_time(hudi: HudiOracle, table: Path) -> None:
    first, second, third = (instant.completed for instant in hudi.instants(table))
    assert first is not None
    assert second is not None
    assert third is not None

    for judge in (hudi.incremental, hudi_rs.incremental):
        assert judge(table, "0").num_rows == len(SURVIVORS)
        assert judge(table, first).num_rows == len(SURVIVORS)
        assert judge(table, second).num_rows == 0, "the last commit only deleted"
    assert hudi.incremental(table, "0", end=first).num_rows == 10


def test_reads_as_of_an_earlier_instant_show_earlier_rows(hudi: HudiOracle, table: Path) -> None:
    first, second, _ = (instant.completed for instant in hudi.instants(table))
    assert first is not None
    assert second is not None

    after_first = hudi.as_of(table, first)
    assert after_first.num_rows == 10
    assert 1002 not in after_first["ts"].to_pylist()
    assert hudi.as_of(table, second).num_rows == 12


def test_a_table_with_an_archived_timeline_is_read(hudi: HudiOracle, hudi_written_table: Callable[[str], Path]) -> None:
    table = hudi_written_table("py_then_java_archived")

    assert hudi.snapshot(table).num_rows > 0
    assert_same_rows(hudi_rs.snapshot(table), hudi.snapshot(table), key=["id"])


def test_pending_and_completed_instants_are_told_apart(hudi: HudiOracle, v9_table: Path) -> None:
    (v9_table / ".hoodie" / "timeline" / "20261121090000000.deltacommit.requested").touch()

    *completed, pending = hudi.instants(v9_table)

    assert [instant.state for instant in completed] == ["COMPLETED"] * 3
    assert (pending.requested, pending.completed, pending.state) == ("20261121090000000", None, "REQUESTED")


def test_hudis_writer_upserts_and_deletes(hudi: HudiOracle, v9_table: Path) -> None:
    rows = new_version(hudi.snapshot(v9_table), ts=2000)

    hudi.upsert(v9_table, rows.slice(0, 3), WRITER)
    hudi.delete(v9_table, rows.slice(3, 2), WRITER)

    after = hudi.snapshot(v9_table)
    assert after.num_rows == len(SURVIVORS) - 2
    assert pc.sum(pc.equal(after["name"], "new")).as_py() == 3
    assert_same_rows(hudi_rs.snapshot(v9_table), after, key=["id"])


def test_hudis_writer_creates_a_table(hudi: HudiOracle, tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "ts": pa.array([1, 1, 1], pa.int64())})

    hudi.upsert(tmp_path / "new", rows, HudiWriter(name="new", record_key=["a", "b"], ordering="ts", buckets=2))

    assert_same_rows(hudi.snapshot(tmp_path / "new"), rows, key=["a", "b"])


def test_compaction_moves_all_rows_into_base_files(hudi: HudiOracle, v9_table: Path) -> None:
    before = hudi.snapshot(v9_table)

    hudi.compact(v9_table, WRITER)

    assert_same_rows(hudi.read_optimized(v9_table), before, key=["id"])
    assert_same_rows(hudi.snapshot(v9_table), before, key=["id"])
    with pytest.raises(OracleError, match="scheduled no compaction"):
        hudi.compact(v9_table, WRITER)


def test_cleaning_removes_files_that_compaction_made_obsolete(hudi: HudiOracle, v9_table: Path) -> None:
    before = hudi.snapshot(v9_table)
    hudi.compact(v9_table, WRITER)
    hudi.upsert(v9_table, new_version(before, ts=2000), WRITER)

    cleaned = hudi.clean(v9_table, WRITER)

    assert cleaned.num_rows == 1
    assert not list(v9_table.glob("*/.*_20261121081719103.log.1_*[!c]")), "the log files are in base files now"
    assert set(hudi.snapshot(v9_table)["name"].to_pylist()) == {"new"}


def test_hudis_errors_come_back_in_its_own_words_and_the_oracle_lives_on(hudi: HudiOracle, v9_table: Path) -> None:
    with pytest.raises(OracleError, match="Hoodie table not found in path /no/such/table") as failure:
        hudi.snapshot("/no/such/table")

    assert failure.value.kind == "org.apache.hudi.exception.TableNotFoundException"
    assert "at org.apache.hudi." in failure.value.trace
    assert hudi.snapshot(v9_table).num_rows == len(SURVIVORS)


def test_a_missing_oracle_is_named_with_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(OracleUnavailableError, match=r"_ORACLE_PYTHON.*_HUDI_BUNDLE.*make oracle"):
        find_environment({"XDG_CACHE_HOME": str(tmp_path)})


def test_an_oracle_that_cannot_start_shows_its_log(oracle_environment: OracleEnvironment) -> None:
    broken = OracleEnvironment(python=Path("/bin/sh"), bundle=oracle_environment.bundle)

    with pytest.raises(OracleUnavailableError, match="has ended"):
        HudiOracle.start(broken)


def test_an_oracle_that_does_not_answer_is_killed(tmp_path: Path, oracle_environment: OracleEnvironment) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 1000\n")
    silent.chmod(0o755)
    oracle = HudiOracle(OracleEnvironment(python=silent, bundle=oracle_environment.bundle), start_seconds_max=0.1)

    with pytest.raises(OracleTimeoutError, match="no answer"):
        oracle.wait_until_ready()

    assert not oracle.running
    oracle.close()
