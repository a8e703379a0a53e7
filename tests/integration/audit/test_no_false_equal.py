"""What is easily taken for equal: keys in two partitions, numbers that are rounded, keys that are null."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from bucketingest.cli.audit.command import Report, compare
from bucketingest.cli.audit.mirror import Mirror
from bucketingest.cli.audit.source import Load, PostgresSource
from bucketingest.cli.errors import BadOption
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from devservers.mirror.databases import Postgres
from support.tables.local_writer import LocalWriter

SCHEMA = pa.schema([("id", pa.int64()), ("area", pa.string()), ("amount", pa.decimal128(12, 3))])
ROWS: list[dict[str, Any]] = [{"id": n, "area": "eu", "amount": Decimal(n)} for n in range(1500)]

Audit = Callable[[str, list[dict[str, Any]]], Report]


@pytest.fixture
def audit(postgres: Postgres, tmp_path: Path) -> Iterator[Audit]:
    """Compares a source, made by statements of SQL, and a table with these rows, which is partitioned by `area`."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute('DROP TABLE IF EXISTS "odd %s ""name"; CREATE TABLE "odd %s ""name" (id INT8, area TEXT)')

        def run(sql: str, rows: list[dict[str, Any]]) -> Report:
            connection.execute(sql.replace("TABLE_", '"odd %s ""name"').encode())
            definition = TableDefinition("t", ("id",), partition_fields=("area",), buckets=2)
            LocalWriter(tmp_path / "t", definition, SCHEMA).commit(pa.Table.from_pylist(rows, SCHEMA))
            storage = open_storage(str(tmp_path / "t"))
            mirror = Mirror.open(storage)
            with PostgresSource.open(
                postgres.url, 'public.odd %s "name', Load(1000, 0, 60), key=mirror.key, schema=mirror.schema
            ) as source:
                return compare(source, storage, mirror, 0, table="t", wait=lambda _: None)

        yield run
        connection.execute('DROP TABLE "odd %s ""name"')


FILL = "ALTER TABLE TABLE_ ADD amount NUMERIC; INSERT INTO TABLE_ SELECT n, 'eu', n FROM generate_series(0, 1499) n"


def test_a_key_in_two_partitions_is_extra(audit: Audit) -> None:
    report = audit(FILL, [*ROWS, {**ROWS[5], "area": "us"}])
    assert (report.extra, report.keys) == (1, ["extra: id=5"])


def test_a_key_that_the_source_has_twice_is_missing(audit: Audit) -> None:
    report = audit(f"{FILL}; INSERT INTO TABLE_ SELECT * FROM TABLE_ WHERE id = 5", ROWS)
    assert (report.missing, report.keys) == (1, ["missing: id=5"])


def test_a_number_with_more_digits_than_the_column_is_different(audit: Audit) -> None:
    report = audit(f"{FILL}; UPDATE TABLE_ SET amount = 5.0004 WHERE id = 5", ROWS)
    assert (report.different, report.keys) == (1, ["different: id=5"])


def test_a_null_key_and_the_least_one_are_in_a_range(audit: Audit) -> None:
    report = audit(f"{FILL}; INSERT INTO TABLE_ VALUES (NULL, 'eu', 1), (-9223372036854775808, 'eu', 1)", ROWS)
    assert (report.missing, report.keys) == (2, ["missing: id=-9223372036854775808", "missing: id=None"])


def test_a_column_that_only_the_source_has_is_named(audit: Audit) -> None:
    assert audit(f"{FILL}; ALTER TABLE TABLE_ ADD note TEXT", ROWS).left_out == ("note",)


@pytest.mark.parametrize("url", ["postgres://u:a/word@h/x", "postgres://u:a?word@h/x", "postgres://h/x?password=word"])
def test_a_password_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with (
        pytest.raises(BadOption, match="everybody on this machine can read") as refused,
        PostgresSource.open(url, "t", Load(1000, 0, 60), key=["id"], schema=SCHEMA),
    ):
        pass
    assert "word@" not in str(refused.value)
