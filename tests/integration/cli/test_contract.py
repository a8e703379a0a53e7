"""What the operator sees of `bucketingest run`: endpoints while it runs; how and why it stops or dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import ProgressReport, TerminationReport
from support.jobs.command_process import CommandProcess
from support.jobs.files_pipeline import FILES, ROWS_PER_FILE, FilesPipeline
from support.jobs.files_runs import judge, to_the_end

TIMEOUT = 30


@dataclass
class Run:
    """A run with endpoints and a termination message."""

    process: CommandProcess
    message_file: Path

    def ask(self, path: str) -> bytes:
        """The body of an endpoint's answer."""
        with urllib.request.urlopen(f"http://{self._address()}{path}", timeout=TIMEOUT) as response:
            return bytes(response.read())

    def progress(self) -> ProgressReport:
        return ProgressReport.model_validate_json(self.ask("/progress"))

    def metrics(self) -> dict[str, float]:
        families = text_string_to_metric_families(self.ask("/metrics").decode())
        return {sample.name: sample.value for family in families for sample in family.samples}

    def message(self) -> TerminationReport:
        assert self.message_file.stat().st_size <= 4096
        return TerminationReport.model_validate_json(self.message_file.read_bytes())

    def listens(self) -> bool:
        return '"endpoints"' in self.process.output

    def written(self, batches: int) -> bool:
        """Whether so many micro-batches have ended."""
        return self.listens() and self.progress().batches >= batches

    def _address(self) -> str:
        line = next(line for line in self.process.output.splitlines() if '"endpoints"' in line)
        return str(json.loads(line)["address"])


@contextmanager
def running(pipeline: FilesPipeline, *arguments: object) -> Iterator[Run]:
    message = pipeline.folder / "message"
    message.unlink(missing_ok=True)  # that of the run before
    flags = ("--listen", "127.0.0.1:0", "--termination-log", message, *arguments)
    with CommandProcess("run", pipeline.file, *flags, log=pipeline.folder / "run.log") as process:
        yield Run(process, message)


def java(process: CommandProcess) -> int:
    """Process id of Spark's JVM. What it starts bears its command line too, between fork and exec."""
    found = {pid for pid, command in process.alive().items() if "/java " in command}
    (jvm,) = [pid for pid in found if parent(pid) not in {None, *found}]
    return jvm


def parent(pid: int) -> int | None:
    """Process id of a process's parent; None if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(status.partition("\nPPid:")[2].split(maxsplit=1)[0])


def test_however_a_run_ends_it_says_so_and_the_next_one_goes_on(pipeline: FilesPipeline) -> None:
    """One pipeline, ended in every way: each run starts on what the one before has left."""
    pipeline.describe(interval="4m")
    sigterm_under_load_commits_the_open_instant(pipeline)
    pipeline.describe()
    a_signal_during_the_start_ends_it_there(pipeline)
    past_the_deadline_it_gives_up(pipeline)
    a_killed_jvm_is_distinguished_from_other_ends(pipeline)
    to_the_end_it_commits_the_open_instant_too(pipeline)
    judge(pipeline)


def sigterm_under_load_commits_the_open_instant(pipeline: FilesPipeline) -> None:
    with running(pipeline) as run:
        run.process.wait_until(lambda: run.written(2))
        during, metrics = run.progress(), run.metrics()
        assert os.getsid(java(run.process)) == java(run.process), "no terminal's signal reaches the JVM"
        assert not pipeline.timeline.completed, "the instant is still open"
        run.process.signal(signal.SIGTERM)
        assert run.process.wait() == ExitCode.OK, run.process.output
        assert run.process.left_behind() == []
    assert (during.pipeline, during.verdict, during.epoch, during.commits) == ("orders", "new", 1, 0)
    assert during.inflight is not None
    assert during.lag.seconds is not None
    assert during.lag.seconds > 0
    assert during.rows == during.batches * ROWS_PER_FILE
    assert metrics["bucketingest_batches_total"] >= during.batches
    assert metrics["bucketingest_commits_total"] == 0
    (commit,) = pipeline.timeline.completed
    assert not pipeline.timeline.pending
    message = run.message()
    assert (message.error_class, message.exit_code, message.instant) == ("Stopped", 0, None)
    assert (message.last_instant, message.commits) == (commit.request_time, 1)
    assert message.rows is not None
    assert 2 <= message.rows // ROWS_PER_FILE < FILES


def a_signal_during_the_start_ends_it_there(pipeline: FilesPipeline) -> None:
    with running(pipeline, "--grace", "90s") as run:  # a busy machine may need more than the default for the start
        run.process.wait_until(run.listens)
        phase: Any = json.loads(run.ask("/progress"))["phase"]
        run.process.signal(signal.SIGTERM)
        assert run.process.wait() == ExitCode.OK, run.process.output
        assert run.process.left_behind() == []
    assert phase == "starting"
    assert run.message().error_class == "Stopped"


def past_the_deadline_it_gives_up(pipeline: FilesPipeline) -> None:
    with running(pipeline, "--grace", "2s") as run:
        run.process.wait_until(lambda: run.written(1))
        os.kill(java(run.process), signal.SIGSTOP)  # whatever runs now never ends
        run.process.signal(signal.SIGTERM)
        assert run.process.wait() == ExitCode.STOP_DEADLINE, run.process.output
        assert run.process.left_behind() == []
    message = run.message()
    assert (message.error_class, message.exit_code, message.remedy) == ("StopDeadline", 19, "restart")


def a_killed_jvm_is_distinguished_from_other_ends(pipeline: FilesPipeline) -> None:
    with running(pipeline) as run:
        run.process.wait_until(lambda: run.written(2))
        os.kill(java(run.process), signal.SIGKILL)
        assert run.process.wait() == ExitCode.JVM_FAILED, run.process.output
        assert run.process.left_behind() == []
    message = run.message()
    assert message.error_class == "JvmFailed"
    assert "SIGKILL" in message.message
    assert message.last_instant is not None
    assert "Traceback" not in run.process.output


def to_the_end_it_commits_the_open_instant_too(pipeline: FilesPipeline) -> None:
    pipeline.describe(interval="4m")
    *_, last = [event for event in to_the_end(pipeline) if event["event"] == "committed"]
    assert last["micro_batches"] > 1


def test_an_idle_run_says_so_and_stops(pipeline: FilesPipeline) -> None:
    with running(pipeline) as run:
        run.process.wait_until(lambda: run.written(FILES))
        run.process.wait_until(lambda: run.progress().idle)
        idle = run.progress()
        assert json.loads(run.ask("/readyz")) == {"ready": True, "phase": "idle"}
        assert json.loads(run.ask("/healthz"))["alive"] is True
        metrics = run.metrics()
        run.process.signal(signal.SIGTERM)
        assert run.process.wait() == ExitCode.OK, run.process.output
    assert (idle.phase, idle.lag.seconds, idle.inflight, idle.commits) == ("idle", 0, None, FILES)
    assert idle.last_commit is not None
    assert idle.last_commit.rows == ROWS_PER_FILE
    assert idle.last_commit.latency_seconds > 0
    assert metrics["bucketingest_commit_latency_seconds_count"] == FILES
    assert metrics["bucketingest_rows_total"] == FILES * ROWS_PER_FILE
    assert run.message().error_class == "Stopped"


def test_what_ends_a_query_is_in_the_message_and_in_one_line(pipeline: FilesPipeline) -> None:
    pipeline.describe("SELECT id, IF(seq = 250, CAST(raise_error('odd row') AS BIGINT), seq) AS seq FROM source")
    with running(pipeline) as run:
        assert run.process.wait() == ExitCode.QUERY_FAILED
    message = run.message()
    assert message.error_class == "QueryFailed"
    assert "odd row" in message.message
    assert message.last_instant is not None
    *others, last = run.process.output.splitlines()
    assert last.startswith("error: the query ended with an error: ")
    assert "odd row" in last
    assert all(line.startswith("{") for line in others), "all other lines are log lines"


def test_a_busy_address_is_reported_before_anything_is_started(pipeline: FilesPipeline, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        with CommandProcess("run", pipeline.file, "--listen", address, log=tmp_path / "log") as process:
            assert process.wait() == ExitCode.BAD_INPUT
    assert f"error: cannot listen on {address}: " in process.output
    assert not pipeline.table.exists()
