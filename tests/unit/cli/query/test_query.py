"""`query` as a user types it: which rows SQL sees, how they are printed, and that nothing is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from support.jobs.commands import Command, Ended
from support.oracle import hudi_rs
from support.tables.local_writer import LocalWriter
from support.tables.other_writers import set_property, upgrade_table
from support.tables.services.compactions import compact

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("at", pa.int64()),
        ("gone", pa.bool_()),
        ("seen", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("city", pa.string()), ("floor", pa.int32())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
REGIONS = ("eu", "a b", "2026-01-01", "ü% x")


def rows(keys: range, at: int, *, gone: bool = False) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": f"k{key:03d}",
                "region": REGIONS[key % len(REGIONS)],
                "at": at,
                "gone": gone,
                "seen": MOMENT,
                "amount": Decimal("12.30"),
                "tags": ["a", None],
                "address": {"city": "Köln", "floor": None},
                "counts": [("x", 1)],
            }
            for key in keys
        ],
        schema=SCHEMA,
    )


def written(path: Path, **settings: Any) -> LocalWriter:
    return LocalWriter(
        path, TableDefinition("orders", ("id",), ("region",), "at", buckets=2), SCHEMA, "gone", **settings
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base files of 40 keys; in log files above them 10 newer versions, and 5 deletes."""
    path = tmp_path_factory.mktemp("query") / "orders"
    writer = written(path)
    writer.commit(rows(range(40), 1))
    compact(open_storage(str(path)))
    writer.commit(rows(range(10), 2))
    writer.commit(rows(range(20, 25), 3, gone=True))
    return path


@pytest.fixture
def ask(command: Command, table: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs SQL in this process; rows as JSON has them."""

    def asked(sql: str, *options: object, path: Path = table) -> list[dict[str, Any]]:
        ended = command("query", "--here", path, sql, "--format", "jsonl", *options)
        assert ended.code == ExitCode.OK, ended.err
        return [json.loads(line) for line in ended.out.splitlines()]

    return asked


def refused(command: Command, table: Path, sql: str, *options: object) -> Ended:
    ended = command("query", "--here", table, sql, *options)
    assert ended.out == ""
    return ended


def instants(path: Path) -> list[str]:
    return [each.request_time for each in Timeline.load(open_storage(str(path))).completed_commits]


def content(path: Path) -> dict[Path, int]:
    return {each: each.stat().st_mtime_ns for each in path.rglob("*")}


@pytest.mark.parametrize(
    ("where", "expected"),
    [("true", 35), ("at = 1", 25), ("at = 2", 10), ("id = 'k003' and at = 1", 0), ("id = 'k021'", 0)],
)
def test_rows_are_the_newest_version_of_each_key_whatever_the_filter(ask: Any, where: str, expected: int) -> None:
    assert ask(f"SELECT count(*) AS n FROM orders WHERE {where}") == [{"n": expected}]


def test_its_rows_are_those_of_hudi_rs(ask: Any, table: Path) -> None:
    columns = ("id", "region", "at", "gone", "_hoodie_commit_time")
    expected = sorted(hudi_rs.snapshot(table).select(columns).to_pylist(), key=lambda row: row["id"])
    assert ask(f"SELECT {', '.join(columns)} FROM t ORDER BY id") == expected


@pytest.mark.parametrize("region", REGIONS)
def test_partitions_with_odd_values_are_found_by_them(ask: Any, region: str) -> None:
    assert ask(f"SELECT DISTINCT region FROM t WHERE region = '{region}'") == [{"region": region}]


def test_every_type_is_printed_for_programs_and_people(ask: Any, command: Command, table: Path) -> None:
    sql = "SELECT seen, amount, tags, address, counts, NULL AS none, gone FROM t WHERE id = 'k030'"
    expected = {
        "seen": "2026-01-02T03:04:05.678901+00:00",
        "amount": "12.30",
        "tags": ["a", None],
        "address": {"city": "Köln", "floor": None},
        "counts": {"x": 1},
        "none": None,
        "gone": False,
    }
    assert ask(sql) == [expected]
    ended = command("query", "--here", table, sql, "-f", "csv")
    assert ended.out == (
        "seen,amount,tags,address,counts,none,gone\n"
        '2026-01-02T03:04:05.678901+00:00,12.30,"[""a"", null]","{""city"": ""Köln"", ""floor"": null}",'
        '"{""x"": 1}",,false\n'
    )
    assert '{"city": "Köln", "floor": null}' in command("query", "--here", table, sql).out


def test_values_that_json_or_a_terminal_cannot_take_are_text(ask: Any, command: Command, table: Path) -> None:
    moment = "arrow_cast(1, 'Timestamp(Nanosecond, None)') AS t"
    assert ask(f"SELECT 'NaN'::double AS n, '-inf'::double AS i, {moment}, X'0aff' AS b") == [
        {"n": "nan", "i": "-inf", "t": "1970-01-01T00:00:00", "b": "0aff"}
    ]
    assert "\\x1b[31m" in command("query", "--here", table, "SELECT chr(27) || '[31m' AS \"[red]x\"").out


def test_rows_beyond_the_limit_are_not_printed_and_it_is_said(command: Command, ask: Any, table: Path) -> None:
    ended = command("query", "--here", table, "SELECT id FROM t", "--rows", 3, "-f", "csv")
    assert len(ended.out.splitlines()) == 4
    assert ended.err == "cut after 3 rows: there are more; --rows 0 prints all\n"
    assert len(ask("SELECT id FROM t", "--rows", 0)) == 35
    assert "cut" not in command("query", "--here", table, "SELECT id FROM t", "--rows", 35).err


def test_a_state_and_the_changes_between_two(ask: Any, table: Path) -> None:
    first, _, second, third = instants(table)
    count = "SELECT at, count(*) AS n FROM t GROUP BY at ORDER BY at"
    assert ask(count, "--as-of", first) == [{"at": 1, "n": 40}]
    assert ask(count, "--as-of", second) == [{"at": 1, "n": 30}, {"at": 2, "n": 10}]
    assert ask(count, "--as-of", third) == [{"at": 1, "n": 25}, {"at": 2, "n": 10}]
    assert ask(count, "--since", first) == [{"at": 2, "n": 10}]
    assert ask(count, "--since", first, "--until", second) == [{"at": 2, "n": 10}]
    assert ask(count, "--since", second) == []
    assert ask("SELECT count(*) AS n FROM t", "--as-of", first) == [{"n": 40}]
    newest = "SELECT id FROM t WHERE at = (SELECT max(at) FROM orders) AND id < 'k002' ORDER BY id"
    assert ask(newest, "--as-of", second) == [{"id": "k000"}, {"id": "k001"}]
    described = [row["column_name"] for row in ask("DESCRIBE t", "--as-of", first)]
    assert described == [row["column_name"] for row in ask("DESCRIBE t")]


def test_an_instant_that_is_open_is_not_seen(ask: Any, tmp_path: Path) -> None:
    writer = written(tmp_path / "open", commit_interval=timedelta(hours=1))
    assert ask("SELECT * FROM t", path=tmp_path / "open") == []
    writer.commit(rows(range(4), 1))
    assert ask("SELECT count(*) AS n FROM t", path=tmp_path / "open") == [{"n": 0}]
    writer.coordinator.commit_open()
    assert ask("SELECT count(*) AS n FROM t", path=tmp_path / "open") == [{"n": 4}]


def test_a_resource_names_the_table(command: Command, resource_file: Path) -> None:
    written(resource_file.with_name("orders")).commit(rows(range(4), 1))
    assert command("query", "--here", resource_file, "SELECT count(*) FROM orders", "-f", "csv").out.endswith("\n4\n")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nothing FROM t",
        "SELEC 1",
        "SELECT 1 FROM unknown",
        "SELECT 1 FROM t WHERE at = 'text'",
        "",
        "SELECT 1; SELECT 2",
        "INSERT INTO t SELECT * FROM t",
        "DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE u AS SELECT 1",
        "CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '/etc/hostname'",
        "COPY (SELECT 1) TO '{folder}/copied.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/copied.csv'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT * FROM '/etc/hostname'",
    ],
)
def test_what_is_not_one_statement_that_reads_is_refused_and_nothing_changes(
    command: Command, table: Path, sql: str
) -> None:
    before = content(table.parent)
    ended = refused(command, table, sql.replace("{folder}", str(table.parent)))
    assert ended.code == ExitCode.BAD_INPUT
    assert ended.err.startswith("error: the SQL cannot be run: ")
    assert "the table is called orders or t" in ended.err
    assert content(table.parent) == before


def test_a_query_changes_no_file(ask: Any, table: Path) -> None:
    before = content(table)
    assert ask("SELECT count(*) AS n FROM t") == [{"n": 35}]
    assert content(table) == before


def test_an_error_while_it_runs_names_the_table(command: Command, table: Path) -> None:
    ended = refused(command, table, "SELECT at / (at - at) FROM t")
    assert ended.code == ExitCode.QUERY_FAILED
    assert f"{table}: the query failed while it ran" in ended.err


def test_more_memory_than_allowed_is_an_error(command: Command, table: Path) -> None:
    sql = "SELECT max(value) FROM (SELECT value FROM generate_series(1, 100000000) ORDER BY value DESC LIMIT 90000000)"
    ended = refused(command, table, sql, "--memory", "256Mi")
    assert ended.code == ExitCode.OUT_OF_MEMORY
    assert "needs more than 256Mi of memory" in ended.err


def test_tables_that_cannot_be_read_are_refused(command: Command, tmp_path: Path) -> None:
    ended = refused(command, tmp_path, "SELECT 1")
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "is not a Hudi table" in ended.err
    path = tmp_path / "orders"
    written(path).commit(rows(range(4), 1))
    set_property(open_storage(str(path)), "hoodie.schema.on.read.enable", "true")
    ended = refused(command, path, "SELECT * FROM t")
    assert ended.code == ExitCode.QUERY_FAILED
    assert f"error: {path}: the query failed while it ran: " in ended.err
    assert "schema-on-read (InternalSchema) is not supported in hudi-rs" in ended.err
    set_property(open_storage(str(path)), "hoodie.table.type", "SOMETHING")
    assert f"error: hudi-rs cannot read {path}: " in refused(command, path, "SELECT * FROM t").err
    upgrade_table(open_storage(str(path)))
    ended = refused(command, path, "SELECT * FROM t")
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "hoodie.table.version=10" in ended.err


def test_without_the_engines_it_says_how_to_get_them(
    command: Command, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datafusion", None)
    ended = refused(command, table, "SELECT 1")
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert "pip install 'bucketingest[query]'" in ended.err
