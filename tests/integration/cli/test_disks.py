"""The disk of a table that is full, and one that is read-only: said as such, and no row is lost or doubled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import TerminationReport
from support.jobs.command_process import CommandProcess, run_command
from support.jobs.files_pipeline import FilesPipeline
from support.jobs.files_runs import judge, to_the_end

MEBIBYTES = 16


def mount(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = mount("-t", "tmpfs", "-o", f"size={MEBIBYTES}m", "tmpfs", folder)
    if done.returncode:
        pytest.skip(f"this user cannot mount a file system: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    """Nothing has room any more."""
    with file.open("wb", buffering=0) as filler:
        for size in (1024**2, 4096):
            try:
                while filler.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def test_a_full_and_a_read_only_disk_are_said_and_cost_no_rows(disk: Path, tmp_path: Path) -> None:
    pipeline = FilesPipeline(disk)
    pipeline.write_input()
    pipeline.describe()
    said = tmp_path / "said"
    run = ("run", pipeline.file, "--once", "--termination-log", said)

    with CommandProcess(*run, log=tmp_path / "full.log") as process:
        process.wait_until(lambda: '"committed"' in process.output)
        fill(disk / "filler")
        code = process.wait()
    assert code == ExitCode.STORAGE_UNAVAILABLE, process.output
    report = TerminationReport.model_validate_json(said.read_bytes())
    assert "No space left on device" in report.message
    assert str(pipeline.table) in report.message

    (disk / "filler").unlink()
    assert mount("-o", "remount,ro", disk).returncode == 0
    code, output = run_command(*run, log=tmp_path / "read-only.log")
    assert code == ExitCode.ACCESS_DENIED, output
    report = TerminationReport.model_validate_json(said.read_bytes())
    assert "Read-only file system" in report.message
    assert str(pipeline.table) in report.message

    assert mount("-o", "remount,rw", disk).returncode == 0
    to_the_end(pipeline)
    judge(pipeline)
