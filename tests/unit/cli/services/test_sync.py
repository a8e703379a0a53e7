"""`bucketingest sync`: what it prints, and how it ends when one of two catalogs is away."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.glue import GlueConnection
from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.exit_codes import ExitCode
from support.catalogs.iceberg import IcebergLake
from support.catalogs.memory import MemoryCatalog
from support.catalogs.tables import SyncedTable
from support.jobs.commands import Command

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("at", pa.timestamp("us", "UTC"))])
CATALOGS = """\
  catalogs:
    - hive: {uri: "thrift://127.0.0.1:9083", database: lake, table: orders_by_hour}
    - glue: {region: eu-west-1, database: lake, views: snapshot}
"""


@pytest.fixture
def catalogs(monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryCatalog]:
    """In the place of both."""
    both = {"hive": MemoryCatalog(), "glue": MemoryCatalog()}
    monkeypatch.setattr(HiveConnection, "open", lambda *_: both["hive"])
    monkeypatch.setattr(GlueConnection, "open", lambda *_: both["glue"])
    return both


@pytest.fixture
def file(resource_file: Path) -> Path:
    resource_file.write_text(resource_file.read_text() + CATALOGS)
    return resource_file


def write(file: Path) -> None:
    SyncedTable((), "").write(file.parent / "orders", SCHEMA)


def test_each_catalog_gets_its_name_and_views_and_drop_takes_them_off(
    command: Command, file: Path, catalogs: dict[str, MemoryCatalog]
) -> None:
    write(file)
    shown = command("sync", file, "--dry-run")
    assert "hive thrift://127.0.0.1:9083 lake.orders_by_hour: would be: created orders_by_hour_ro" in shown.out
    assert not catalogs["hive"].changes
    told = json.loads(command("sync", file, "--json").out)["catalogs"]
    assert told["glue eu-west-1 lake.orders"]["created"] == ["orders"]
    assert set(catalogs["glue"].tables) == {"orders"}
    assert set(catalogs["hive"].tables) == {"orders_by_hour", "orders_by_hour_rt", "orders_by_hour_ro"}
    assert command("sync", file, "--drop").code == ExitCode.OK
    assert not catalogs["glue"].tables | catalogs["hive"].tables


def test_a_check_says_by_its_exit_code_whether_a_catalog_has_drifted(
    command: Command, file: Path, catalogs: dict[str, MemoryCatalog]
) -> None:
    write(file)
    assert command("sync", file, "--check", "--dry-run").code == ExitCode.FINDINGS
    assert command("sync", file, "--check").code == ExitCode.OK
    assert command("sync", file, "--check", "--dry-run").code == ExitCode.OK
    catalogs["glue"].drop("orders")
    assert command("sync", file, "--check", "--dry-run", "--json").code == ExitCode.FINDINGS
    assert command("sync", file, "--check", "--drop").code == ExitCode.BAD_INPUT


def test_an_iceberg_catalog_is_synced_as_the_others(command: Command, resource_file: Path) -> None:
    lake = IcebergLake(resource_file.parent / "lake")
    entry = lake.entry.model_dump(exclude_none=True)
    label = lake.target.label
    resource_file.write_text(resource_file.read_text() + f"  catalogs: [{{iceberg: {json.dumps(entry)}}}]\n")
    write(resource_file)
    assert "lake.orders: created orders" in command("sync", resource_file).out
    assert "lake.orders: nothing to do" in command("sync", resource_file).out
    assert lake.rows() == []
    assert command("sync", resource_file, "--drop").out == f"{label}: dropped orders\n"


def test_a_catalog_that_is_away_does_not_keep_the_other_back(
    command: Command, file: Path, catalogs: dict[str, MemoryCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> MemoryCatalog:
        raise CatalogUnavailable("Hive metastore thrift://127.0.0.1:9083: refused: start it")

    monkeypatch.setattr(HiveConnection, "open", away)
    write(file)
    ended = command("sync", file)
    assert ended.code == ExitCode.CATALOG_FAILED
    assert "error: Hive metastore" in ended.err
    assert set(catalogs["glue"].tables) == {"orders"}


@pytest.mark.usefixtures("catalogs")
def test_before_the_first_commit_nothing_is_registered(command: Command, file: Path) -> None:
    write(file)
    for commit in (file.parent / "orders" / ".hoodie" / "timeline").glob("*_*.deltacommit"):
        commit.unlink()
    ended = command("sync", file)
    assert (ended.code, "no commit yet" in ended.out) == (ExitCode.OK, True)


def test_a_resource_without_catalogs_is_a_wrong_command(command: Command, resource_file: Path) -> None:
    assert command("sync", resource_file).code == ExitCode.BAD_INPUT
