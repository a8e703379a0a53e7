"""`bucketingest run` as a process: ended by signals, started again, and its table judged by hudi-rs."""

import signal
import sys
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.table.metadata_table import switched_on
from bucketingest.hudi.table.table import TableDefinition, create_table, load_table
from bucketingest.storage import open_storage
from support.jobs.command_process import CommandProcess, run_command
from support.jobs.files_pipeline import FILES, ROWS, ROWS_PER_FILE, FilesPipeline
from support.jobs.files_runs import events_of, judge, to_the_end


def test_ctrl_c_ends_it_after_a_whole_micro_batch_and_the_next_run_continues(
    pipeline: FilesPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a second one has killed the run before. Another writer's metadata table is dropped at the start."""
    create_table(open_storage(str(pipeline.table)), TableDefinition("orders", ("id",), (), "seq", buckets=4))
    with (pipeline.table / PROPERTIES_PATH).open("a") as properties:
        properties.write("hoodie.table.metadata.partitions=files\n")
    pipeline.file.write_text(pipeline.file.read_text().replace("  table:\n", "  table:\n    metadataTable: drop\n"))
    a_second_signal_kills_it_with_all_it_started(pipeline)
    assert not switched_on(load_table(open_storage(str(pipeline.table))).properties)
    with monkeypatch.context() as image:
        # Its JVM starts as in the image, without Spark's launcher, which alone knows these variables.
        for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"):
            image.delenv(name, raising=False)
        image.setenv("BUCKETINGEST_CLASS_ARCHIVE", str(Path(sys.prefix) / "spark.jsa"))
        a_signal_ends_it_after_a_whole_micro_batch(pipeline)
    files = len(pipeline.timeline.completed)  # an instant for each
    pipeline.describe(interval="4m")
    (rest,) = [event for event in to_the_end(pipeline) if event["event"] == "committed"]
    assert rest["rows"] == ROWS - files * ROWS_PER_FILE, "none is read again, and none is left out"
    judge(pipeline)


def a_second_signal_kills_it_with_all_it_started(pipeline: FilesPipeline) -> None:
    with CommandProcess("run", pipeline.file, log=pipeline.folder / "run.log") as process:
        process.wait_until(lambda: len(pipeline.timeline.completed) >= 1)
        process.signal(signal.SIGINT)
        process.wait_until(lambda: "stopping after" in process.output)
        process.signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
        assert process.left_behind() == []
    assert "killed; the next start" in process.output


def a_signal_ends_it_after_a_whole_micro_batch(pipeline: FilesPipeline) -> None:
    before = len(pipeline.timeline.completed)
    with CommandProcess("run", pipeline.file, log=pipeline.folder / "run.log") as process:
        process.wait_until(lambda: len(pipeline.timeline.completed) >= before + 2)
        process.signal(signal.SIGINT)
        assert process.wait() == ExitCode.OK, process.output
        assert process.left_behind() == []
    events = events_of(process.output)
    assert any(event["event"].startswith("stopping after") and event["signal"] == "SIGINT" for event in events)
    assert events[-1]["event"] == "stopped"
    assert not pipeline.timeline.pending
    assert len(pipeline.timeline.completed) < FILES


def test_an_interpreter_that_cannot_run_tasks_is_named(
    pipeline: FilesPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_us = Path(sys.executable).resolve()  # the same Python, and none of this environment's packages
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {without_us} "$@"\n')
    interpreter.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(interpreter))
    code, output = run_command("run", pipeline.file, log=tmp_path / "run.log")
    assert code == ExitCode.MISSING_DEPENDENCY
    last = output.splitlines()[-1]
    assert "a Python worker did not start" in last
    assert "No module named 'bucketingest'" in last
    assert "PYSPARK_PYTHON must name" in last
