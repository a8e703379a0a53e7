"""A table and the table of a real PostgreSQL that it mirrors: equal, and each way in which they differ."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from bucketingest.cli.audit.command import Report, compare
from bucketingest.cli.audit.mirror import Mirror
from bucketingest.cli.audit.source import Load, PostgresSource
from bucketingest.cli.main import call
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from devservers.mirror.databases import Postgres
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(12, 3)),
        ("price", pa.float64()),
        ("ratio", pa.float32()),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("data", pa.binary()),
        ("kind", pa.string()),
        ("doc", pa.string()),
        ("t", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
COLUMNS = SCHEMA.names[:-1]
DDL = (
    "name VARCHAR(40), amount NUMERIC(12,3), price DOUBLE PRECISION, ratio REAL, paid BOOLEAN, day DATE, "
    "at TIMESTAMPTZ, data BYTEA, kind mood, doc JSONB, t TIME"
)
ODD: list[dict[str, Any]] = [
    {"name": ""},
    {"name": "é\U0001f600, 'quoted' \\ \n"},
    {"amount": Decimal("0.001"), "price": -0.0, "ratio": 0.1},
    {"amount": Decimal("-999999999.999"), "price": 1e-300, "ratio": float("inf")},
    {"price": float("nan"), "paid": False},
    {"day": dt.date(1, 1, 1), "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC)},
    {"day": dt.date(9999, 12, 31), "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC)},
    {"data": b"\x00\xff", "kind": "happy", "doc": '{"a": 1}', "t": 45_296_789_000},
]


def row(number: int) -> dict[str, Any]:
    values = {"name": f"n{number}", "amount": Decimal(number) / 8, "price": number / 7, "paid": number % 2 == 0}
    values |= {"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number)}
    return {"id": number, **(ODD[number] if number < len(ODD) else values)}


def in_source(values: dict[str, Any]) -> list[Any]:
    found = {name: values.get(name) for name in COLUMNS}
    if found["t"] is not None:
        found["t"] = (dt.datetime(1, 1, 1) + dt.timedelta(microseconds=found["t"])).time()  # noqa: DTZ001 - a time of day
    return list(found.values())


@dataclass
class Both:
    """The two tables, filled alike."""

    connection: psycopg.Connection[Any]
    url: str
    folder: Path
    writer: LocalWriter
    key: tuple[str, ...]

    def insert(self, rows: list[dict[str, Any]]) -> None:
        marks = ", ".join(["%s"] * len(COLUMNS))
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO mirrored VALUES ({marks})", [in_source(each) for each in rows])

    def write(self, rows: list[dict[str, Any]]) -> None:
        self.writer.commit(pa.Table.from_pylist([{"deleted": False, **each} for each in rows], SCHEMA))

    def audit(self, during: Any = lambda: None, only: tuple[str, ...] = (), range_rows: int = 1000) -> Report:
        storage = open_storage(str(self.folder))
        mirror = Mirror.open(storage)
        load = Load(range_rows, 0, 60)
        with PostgresSource.open(
            self.url, "public.mirrored", load, key=mirror.key, schema=mirror.schema, only=only
        ) as source:
            return compare(source, storage, mirror, 0, table="public.mirrored", wait=lambda _: during())


@pytest.fixture(params=[("id",), ("name", "id")])
def both(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> Iterator[Both]:
    key = request.param
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS mirrored; DROP TYPE IF EXISTS mood")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        connection.execute(f"CREATE TABLE mirrored (id BIGINT PRIMARY KEY, {DDL})")
        schema = pa.schema(list(SCHEMA)[:-1])
        writer = LocalWriter(tmp_path / "t", TableDefinition("t", key, buckets=4), schema, deleted="deleted")
        yield Both(connection, postgres.url, tmp_path / "t", writer, key)


def rows_with_keys(count: int, key: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = [row(number) for number in range(count)]
    return [each | ({"name": each.get("name") or f"no name {each['id']}"} if "name" in key else {}) for each in rows]


def test_rows_of_every_type_are_equal_before_and_after_a_compaction(both: Both) -> None:
    rows = rows_with_keys(5000, both.key)
    both.insert(rows)
    both.write([each | {"name": each.get("name"), "price": 1.0} for each in rows])
    both.write(rows)
    report = both.audit()
    assert (report.is_equal, report.rows, report.left_out, report.keys) == (True, 5000, (), [])
    assert set(report.columns) == set(COLUMNS)
    compact(open_storage(str(both.folder)))
    assert both.audit().is_equal


def test_each_difference_is_found_with_its_key(both: Both) -> None:
    rows = rows_with_keys(3000, both.key)
    both.insert([each for each in rows if each["id"] != 11])
    both.write([each | ({"paid": None} if each["id"] == 2500 else {}) for each in rows if each["id"] != 1700])
    report = both.audit()
    assert (report.missing, report.extra, report.different, report.changing) == (1, 1, 1, 0)
    assert sorted((each.partition(":")[0], "id=" in each) for each in report.keys) == [
        ("different", True),
        ("extra", True),
        ("missing", True),
    ]
    assert any("id=1700" in each for each in report.keys if each.startswith("missing"))
    assert both.audit(only=("price",)).different == 0


def test_what_arrives_while_it_looks_is_no_difference(both: Both) -> None:
    rows = rows_with_keys(3000, both.key)
    both.insert(rows)
    both.write(rows[:1000])
    report = both.audit(during=lambda: both.write(rows))
    assert report.is_equal
    late = [each | {"paid": True} for each in rows if each["id"] == 2999]

    def changes() -> None:
        both.write([each | {"paid": None} for each in rows if each["id"] in (2998, 2999)])
        both.connection.execute("UPDATE mirrored SET paid = NOT paid WHERE id = 2999")

    both.write(late)
    both.write([each | {"price": 5.0} for each in rows if each["id"] == 2998])
    found = both.audit(during=changes)
    assert (found.changing, found.different) == (1, 1)


def test_the_command_says_what_differs_and_ends_with_22(
    both: Both, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_with_keys(100, both.key)
    both.insert(rows)
    both.write(rows[1:])
    file = tmp_path / "r.yaml"
    spec = {
        "source": {"kafka": {"bootstrapServers": "k:9092", "topics": ["shop.public.mirrored"]}},
        "format": {"type": "json", "schema": "id BIGINT", "envelope": {"type": "debezium"}},
        "table": {"path": str(both.folder)},
    }
    head = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "r"}}
    file.write_text(json.dumps(head | {"spec": spec}))
    arguments = ["audit", str(file), "--settle", "0s"]
    assert call([*arguments, "--against", both.url]) == 22
    assert "DIFFERENT: 1 missing, 0 extra, 0 with other values" in capsys.readouterr().out
    both.write(rows)
    assert call([*arguments, "--against", both.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True
    assert call([*arguments, "--against", "postgres://u:secretword@localhost:1/x"]) == 2
    assert "secretword" not in capsys.readouterr().err
    assert call([*arguments, "--against", "postgres://u@127.0.0.1:1/x"]) == 15
    assert call([*arguments, "--against", both.url, "--table", "public.nothing"]) == 15
    assert call([*arguments, "--against", both.url, "--columns", "price,nothing"]) == 2
    assert "column nothing cannot be compared" in capsys.readouterr().err
