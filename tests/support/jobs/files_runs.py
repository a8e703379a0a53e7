"""What a run of a FilesPipeline logged, and the judgement of its table after a further run."""

from __future__ import annotations

import json
from typing import Any

from bucketingest.exit_codes import ExitCode
from support.jobs.command_process import run_command
from support.jobs.files_pipeline import FilesPipeline, newest_rows
from support.oracle import hudi_rs


def events_of(output: str) -> list[dict[str, Any]]:
    """The log lines of a run without error."""
    return [json.loads(line) for line in output.splitlines()]


def received(events: list[dict[str, Any]]) -> int:
    """Rows that commits took from the source; those with an equal key in one micro-batch all count."""
    return sum(event["rows"] for event in events if event["event"] == "committed")


def finish_and_judge(pipeline: FilesPipeline) -> list[dict[str, Any]]:
    """A further run takes the rest; then every key is there once, in its newest version. Returns the run's log."""
    code, output = run_command("run", pipeline.file, "--once", log=pipeline.folder / "rest.log")
    assert code == ExitCode.OK, output
    assert not pipeline.timeline.pending
    rows = hudi_rs.snapshot(pipeline.table)
    found = sorted(zip(rows["id"].to_pylist(), rows["seq"].to_pylist(), strict=True))
    assert found == newest_rows()
    return events_of(output)
