"""What a run of a FilesPipeline logged, a run that takes the rest of its input, and the judgement of its table."""

from __future__ import annotations

import json
from typing import Any

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import TerminationReport
from support.jobs.command_process import run_command
from support.jobs.files_pipeline import FilesPipeline, newest_rows
from support.oracle import hudi_rs


def events_of(output: str) -> list[dict[str, Any]]:
    """The log lines of a run without error."""
    return [json.loads(line) for line in output.splitlines()]


def to_the_end(pipeline: FilesPipeline) -> list[dict[str, Any]]:
    """The log of a further run, which takes the rest of the input and says that it is completed."""
    message = pipeline.folder / "message"
    flags = ("--once", "--termination-log", message)
    code, output = run_command("run", pipeline.file, *flags, log=pipeline.folder / "rest.log")
    assert code == ExitCode.OK, output
    assert TerminationReport.model_validate_json(message.read_bytes()).error_class == "Completed"
    events = events_of(output)
    assert events[-1]["event"] == "stopped"
    return events


def judge(pipeline: FilesPipeline) -> None:
    """Every key is there once, in its newest version, and nothing is open."""
    assert not pipeline.timeline.pending
    rows = hudi_rs.snapshot(pipeline.table)
    found = sorted(zip(rows["id"].to_pylist(), rows["seq"].to_pylist(), strict=True))
    assert found == newest_rows()
