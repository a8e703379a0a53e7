"""The process that a query runs in: its end is ours, and it is ended at a limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bucketingest.cli.errors import BadOption
from bucketingest.cli.query.within_limits import Limits, QueryFailed, QueryTooLarge, run_within
from bucketingest.exit_codes import ExitCode

ENOUGH = Limits(600, 2 * 1024**3)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of Python; its process id is in the file `pid`."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return script


def test_a_query_on_the_command_line_runs_in_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_within(ENOUGH, ["query", "--here", str(tmp_path), "SELECT 1"]) == ExitCode.TABLE_REFUSED
    assert "is not a Hudi table" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("limits", "error", "said"),
    [(Limits(0, 2**40), QueryFailed, "--timeout"), (Limits(600, 1), QueryTooLarge, "--memory")],
    ids=["time", "memory"],
)
def test_at_a_limit_it_is_ended(
    program: Path, limits: Limits, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    resident = "bucketingest.cli.query.within_limits._resident_bytes"

    def looked_at(pid: int) -> int:
        pids.append(pid)
        return 2

    if limits.seconds:
        monkeypatch.setattr(resident, looked_at)
    with pytest.raises(error, match=said):
        run_within(limits, [])
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_crash_is_told(program: Path) -> None:
    program.write_text("#!/bin/sh\nkill -ABRT $$\n")
    with pytest.raises(QueryFailed, match="SIGABRT"):
        run_within(ENOUGH, [])


@pytest.mark.parametrize(("timeout", "memory"), [("soon", "1Gi"), ("1m", "much"), ("1m", "1Mi")])
def test_limits_that_make_no_sense_are_refused(timeout: str, memory: str) -> None:
    with pytest.raises(BadOption, match=r"^--"):
        Limits.of(timeout, memory)
