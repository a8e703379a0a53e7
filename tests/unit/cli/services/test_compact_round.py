"""`bucketingest compact-round`, as a pod calls it: on a table on disk, ended by a signal, and with nothing to do."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.protocol.records import End
from bucketingest.storage import open_storage
from support.cluster.kube import wait_for
from support.tables.services.compactions import finish, started
from support.tables.services.snapshot import doubled_base_files, snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


@pytest.fixture
def table(tmp_path: Path) -> TestTable:
    its = TestTable()
    its.storage = open_storage(str(tmp_path / uuid.uuid4().hex))
    its.attempt().run(offsets(0, 2), [row("k0"), row("k1", region="us")])
    return its


def pod(table: TestTable, *options: str) -> int:
    return call(["compact-round", table.storage.url, "--number", "1", "--round", "1", *options])


def test_two_pods_and_the_holder_make_a_compaction(table: TestTable, monkeypatch: pytest.MonkeyPatch) -> None:
    started(table.storage)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")  # as Kubernetes sets it
    assert pod(table, "--of", "2") == ExitCode.OK
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    assert pod(table, "--of", "2") == ExitCode.OK, "nothing is left"
    assert finish(table.storage) == [End.COMPLETED]
    assert pod(table) == ExitCode.OK, "the round has ended"
    assert [each for each in table.timeline().completed if each.action == COMMIT]


def test_a_signal_ends_it_as_a_failure_and_its_successor_ends_the_round(
    table: TestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(table.storage)

    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("bucketingest.services.compaction.rounds.compact_group", interrupted)
    assert pod(table) == ExitCode.INTERRUPTED, "success would end the Job"
    monkeypatch.undo()
    assert pod(table) == ExitCode.OK
    assert finish(table.storage) == [End.COMPLETED]


def test_a_pod_that_is_killed_is_replaced_while_another_one_works(table: TestTable) -> None:
    table.attempt().run(offsets(2, 99), [row(f"n{number}", region=f"r{number % 6}") for number in range(200)])
    rows, work = snapshot(table.storage), started(table.storage)
    claims = CompactionJournal(table.storage).path(work.number, "round/1/claim")

    def start(index: int) -> subprocess.Popen[bytes]:
        place = ["--number", "1", "--round", "1", "--index", str(index), "--of", "2"]
        command = [sys.executable, "-m", "bucketingest.cli.main", "compact-round", table.storage.url, *place]
        return subprocess.Popen(command)

    first, second = start(0), start(1)
    wait_for(lambda: any(table.storage.list(claims)), within=60, description="a claim")
    first.kill()
    first.wait()
    assert start(0).wait(timeout=60) == ExitCode.OK
    assert second.wait(timeout=60) == ExitCode.OK
    assert finish(table.storage) == [End.COMPLETED]
    assert snapshot(table.storage) == rows
    assert doubled_base_files(table.storage) == []
