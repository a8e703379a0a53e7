"""`bucketingest services`: what is due of a suspended pipeline's table, by the limits of its resource."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.inline import InlineServices
from bucketingest.storage import open_storage
from support.catalogs.iceberg import IcebergLake
from support.jobs.commands import Command
from support.tables.other_writers import schedule_compaction
from support.tables.services.serving_job import Worker
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


@pytest.fixture
def table(tmp_path: Path) -> TestTable:
    """The table of `resource_file`, with two log files in a file group."""
    its = TestTable()
    its.storage = open_storage(str(tmp_path / "orders"))
    attempt = its.attempt()
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    attempt.run(offsets(1, 2), [row("k0", at=2)])
    return its


@pytest.fixture
def resource(resource_file: Path) -> Callable[..., Path]:
    def write(**services: Any) -> Path:
        with resource_file.open("a") as file:
            file.write(f"  suspend: true\n  services: {json.dumps(services)}\n")
        return resource_file

    return write


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing starts a process of table services, which imports for more than a second of processor time."""
    here: Any = Worker
    monkeypatch.setattr("bucketingest.cli.services.all_due.InlineServices", partial(InlineServices, start=here))


def test_what_is_due_by_the_limits_of_the_resource_is_done(
    command: Command, table: TestTable, resource: Callable[..., Path]
) -> None:
    rows = snapshot(table.storage)
    file = resource(compaction={"logFiles": 2}, clean={"versions": 1})
    ended = command("services", file, "--json")
    assert ended.code == ExitCode.OK, ended.err
    done = json.loads(ended.out)
    assert (done["compactions"], done["cleaned_files"], done["not_done"]) == (1, 2, None)
    assert [each.action for each in table.timeline().completed].count(COMMIT) == 1
    assert snapshot(table.storage) == rows
    table.attempt().run(offsets(2, 3), [row("k1")])
    assert snapshot(table.storage).keys() == {*rows, "k1"}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("archive", "leave"), [({}, True), ({"commits": 500}, False)])
def test_commits_stay_on_the_timeline_by_the_limits_of_the_resource(
    command: Command, tmp_path: Path, resource: Callable[..., Path], archive: dict[str, Any], leave: bool
) -> None:
    old = TestTable()
    old.storage = open_storage(str(tmp_path / "orders"))
    attempt = old.attempt(clock=lambda: utc_now() - timedelta(days=2))
    for number in range(24):
        attempt.run(offsets(number, number + 1), [row("k0", at=number)])
    ended = command("services", resource(compaction={"logFiles": 2}, clean={"versions": 1}, archive=archive), "--json")
    assert ended.code == ExitCode.OK, ended.err
    assert (json.loads(ended.out)["archived_instants"] > 0) is leave


@pytest.mark.usefixtures("in_this_process")
def test_nothing_is_due_by_the_limits_of_another_resource(
    command: Command, table: TestTable, resource: Callable[..., Path]
) -> None:
    before = table.timeline().instants
    ended = command("services", resource(mode="inline"))
    assert (ended.code, ended.out.partition(",")[0]) == (ExitCode.OK, "0 compactions")
    assert table.timeline().instants == before


@pytest.mark.usefixtures("in_this_process")
def test_a_table_whose_services_are_off_or_hudis_is_left_alone(
    command: Command, table: TestTable, resource: Callable[..., Path]
) -> None:
    assert "not done: services.mode is off" in command("services", resource(mode="off")).out
    time = schedule_compaction(table)
    file = resource_of(resource, compaction={"logFiles": 2})
    ended = command("services", file)
    assert ended.code == ExitCode.OK, ended.err
    assert "not done: " in ended.out
    assert time in ended.out


def resource_of(resource: Callable[..., Path], **services: Any) -> Path:
    file = resource()
    head = file.read_text().partition("  suspend:")[0]
    file.write_text(head)
    return resource(**services)


def test_a_job_is_not_disturbed(command: Command, table: TestTable, resource: Callable[..., Path]) -> None:
    with TableLease.acquire(table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)):
        ended = command("services", resource())
    assert ended.code == ExitCode.TABLE_LOCKED
    assert "shop/orders" in ended.err


def test_a_failure_ends_it_as_one(
    command: Command, table: TestTable, resource: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketingest.services.worker_process.sys.executable", "/no/such/interpreter")
    ended = command("services", resource(compaction={"logFiles": 2}))
    assert ended.code == ExitCode.OUT_OF_MEMORY
    assert "cannot be started" in ended.err


def test_a_signal_ends_it_and_frees_the_table(
    command: Command, table: TestTable, resource: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = InlineServices.step

    def stopped(services: InlineServices) -> None:
        step(services)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(InlineServices, "step", stopped)
    ended = command("services", resource(compaction={"logFiles": 2}))
    assert ended.code == ExitCode.INTERRUPTED
    TableLease.acquire(table.storage, LeaseOwner("shop/orders"), wait=timedelta(0)).release()


@pytest.mark.usefixtures("in_this_process")
def test_an_iceberg_table_names_no_file_that_its_clean_deletes(
    command: Command, table: TestTable, resource: Callable[..., Path], tmp_path: Path
) -> None:
    lake = IcebergLake(tmp_path / "lake")
    file = resource(compaction={"logFiles": 2}, clean={"versions": 1})
    entry = json.dumps(lake.entry.model_dump(exclude_none=True))
    file.write_text(file.read_text() + f"  catalogs: [{{iceberg: {entry}}}]\n")

    def serve(first: int, code: ExitCode = ExitCode.OK, why: str = "") -> tuple[int, bool]:
        for number in (first, first + 1):
            table.attempt().run(offsets(number, number + 1), [row("k0", at=number, amount=number)])
        ended = command("services", file, "--json")
        assert ended.code == code, ended.err
        assert why in ended.err
        done = json.loads(ended.out)
        return done["compactions"], done["cleaned_files"] > 0

    for first in (2, 4):
        assert serve(first) == (1, True)
        assert [each["amount"] for each in lake.rows()] == [first + 1]
    (tmp_path / "lake" / "catalog.db").write_bytes(b"broken")
    waits = "clean and archive wait until this catalog is up to date"
    assert serve(6, ExitCode.CATALOG_FAILED, waits) == (1, False)
