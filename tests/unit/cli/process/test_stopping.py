"""The end of a process: signals, the deadline, the termination message. Each test's process is a real one."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from support.jobs.commands import Command

PRELUDE = """
import logging, os, signal, sys, threading, time
from datetime import timedelta
from pathlib import Path
from bucketingest.cli.job import Job
from bucketingest.cli.options import RunOptions
from bucketingest.errors import BucketIngestError
from bucketingest.storage import StorageUnavailable

message = Path(sys.argv[1])
job = Job(RunOptions(grace=timedelta(seconds=float(sys.argv[2])), termination_log=message))
job.kill = lambda: message.with_name("killed").touch()
me = os.getpid()
"""


@dataclass(frozen=True)
class Ended:
    code: int
    message: dict[str, Any]
    killed: bool
    out: str
    err: str


def run(folder: Path, body: str, grace: float = 60) -> Ended:
    """Run the body in a Python of its own, with a `job`."""
    script = PRELUDE + "\n".join(line[4:] for line in body.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "message"), str(grace)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    message = json.loads((folder / "message").read_bytes())
    return Ended(done.returncode, message, (folder / "killed").exists(), done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_first_signal_lets_it_finish(tmp_path: Path, name: str) -> None:
    ended = run(
        tmp_path,
        f"""
    with job.ending():
        job.signals.watched = True
        os.kill(me, signal.{name})
        print("finishing", job.signals.first.name)
    """,
    )
    assert (ended.code, ended.out, ended.killed) == (0, f"finishing {name}\n", False)
    assert (ended.message["errorClass"], ended.message["exitCode"]) == ("Stopped", 0)
    assert name in ended.message["message"]


def test_without_a_signal_it_is_completed(tmp_path: Path) -> None:
    ended = run(tmp_path, "\n    with job.ending():\n        pass\n")
    assert (ended.code, ended.message["errorClass"], ended.message["remedy"]) == (0, "Completed", "none")


def test_a_second_signal_kills_it_and_says_so(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    with job.ending():
        job.signals.watched = True
        os.kill(me, signal.SIGTERM)
        os.kill(me, signal.SIGTERM)
        print("not reached")
    """,
    )
    assert (ended.code, ended.out, ended.killed) == (ExitCode.TERMINATED, "", True)
    assert (ended.message["errorClass"], ended.message["exitCode"]) == ("Terminated", 143)


def test_past_the_deadline_it_gives_up_whatever_the_main_thread_waits_for(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    with job.ending():
        job.signals.watched = True
        os.kill(me, signal.SIGTERM)
        never = threading.Lock()
        never.acquire()
        never.acquire()
    """,
        grace=0.2,
    )
    assert (ended.code, ended.killed) == (ExitCode.STOP_DEADLINE, True)
    assert (ended.message["errorClass"], ended.message["remedy"]) == ("StopDeadline", "restart")
    assert "within 0.2 s" in ended.message["message"]


def test_past_the_deadline_with_all_committed_it_has_succeeded(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    with job.ending():
        job.signals.watched = True
        os.kill(me, signal.SIGTERM)
        job.succeeded()
        never = threading.Lock()
        never.acquire()
        never.acquire()
    """,
        grace=0.2,
    )
    assert (ended.code, ended.killed, ended.message["errorClass"]) == (0, True, "Stopped")


def test_the_deadline_counts_from_the_first_signal_only(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    with job.ending():
        threading.Event().wait(0.4)
    """,
        grace=0.1,
    )
    assert (ended.code, ended.message["errorClass"]) == (0, "Completed")


def test_a_signal_while_nothing_runs_yet_ends_it_there(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    from contextlib import suppress
    from bucketingest.cli.process.signals import StoppedEarly
    with suppress(StoppedEarly), job.ending():
        try:
            os.kill(me, signal.SIGTERM)
            print("not reached")
        except Exception:
            print("swallowed")
    """,
    )
    assert (ended.code, ended.out) == (0, "")
    assert ended.message["message"] == "stopped before anything was started"


def test_a_signal_while_a_class_is_made_ends_it_there_too(tmp_path: Path) -> None:
    """As in an import: Python 3.11 makes a RuntimeError of what is raised in `__set_name__`."""
    ended = run(
        tmp_path,
        """
    from contextlib import suppress
    from bucketingest.cli.process.signals import StoppedEarly

    class Field:
        def __set_name__(self, owner, name):
            try:
                os.kill(me, signal.SIGTERM)
            except BaseException as error:
                raise RuntimeError("Error calling __set_name__") from error

    with suppress(StoppedEarly), job.ending():
        class Owner:
            field = Field()
        print("not reached")
    """,
    )
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert (ended.message["errorClass"], ended.message["exitCode"]) == ("Stopped", 0)
    assert ended.message["message"] == "stopped before anything was started"


def test_an_error_without_a_signal_stays_that_error(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    from bucketingest.cli.process.signals import StoppedEarly
    try:
        with job.ending():
            with job.signals.put_off():
                print("started")
            raise RuntimeError("Error calling __set_name__")
    except RuntimeError:
        sys.exit(1)
    """,
    )
    assert (ended.code, ended.out, ended.message["errorClass"]) == (1, "started\n", "Defect")


def test_a_signal_while_something_is_started_waits_for_it(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    from contextlib import suppress
    from bucketingest.cli.process.signals import StoppedEarly
    with suppress(StoppedEarly), job.ending():
        with job.signals.put_off():
            os.kill(me, signal.SIGTERM)
            print("started")
        print("not reached")
    """,
    )
    assert (ended.code, ended.out) == (0, "started\n")
    assert ended.message["message"] == "stopped before anything was started"


def test_a_failure_is_reported_with_its_class_and_without_secrets(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    try:
        with job.ending():
            raise StorageUnavailable("s3://lake does not answer; url https://me:hunter22@host/")
    except BucketIngestError as error:
        sys.exit(6)
    """,
    )
    assert ended.message["errorClass"] == "StorageUnavailable"
    assert ended.message["message"] == "s3://lake does not answer; url https://***@host/"


def test_a_signal_handler_may_look_at_the_board_while_its_thread_writes_it(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
    from bucketingest.stream.report.board import ProgressBoard
    job.board = ProgressBoard()
    with job.ending():
        job.signals.watched = True
        os.kill(me, signal.SIGTERM)
        with job.board._lock:
            os.kill(me, signal.SIGTERM)
    """,
    )
    assert (ended.code, ended.message["errorClass"]) == (ExitCode.TERMINATED, "Terminated")


def test_a_bad_file_leaves_a_message_too(command: Command, tmp_path: Path) -> None:
    message = tmp_path / "message"
    ended = command("run", tmp_path / "none.yaml", "--termination-log", message)
    assert ended.code == ExitCode.BAD_INPUT
    document = json.loads(message.read_bytes())
    assert (document["errorClass"], document["exitCode"], document["remedy"]) == ("BadInput", 2, "person")
    assert "there is no such file" in document["message"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "a.yaml", "--twice"], "BadInput"),
        (["run", "a.yaml", "--grace", "soon"], "BadInput"),
        (["inspect", "{folder}/none"], "TableRefused"),
        (["--version"], "Completed"),
    ],
)
def test_every_command_leaves_a_message_where_the_environment_wants_one(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], word: str
) -> None:
    message = tmp_path / "message"
    monkeypatch.setenv("BUCKETINGEST_TERMINATION_LOG", str(message))
    ended = command(*(argument.format(folder=tmp_path) for argument in arguments))
    document = json.loads(message.read_bytes())
    assert (document["errorClass"], document["exitCode"]) == (word, ended.code)


def test_orphans_are_reaped_and_own_children_are_not(tmp_path: Path) -> None:
    script = """
import ctypes, os, subprocess, sys
from bucketingest.cli.run import reap_orphans
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become its children, as process 1's do
pipe = subprocess.PIPE
reading, writing = os.pipe()
script = f"(cat <&{reading}; exit 3) & echo $!; exec cat"
parent = subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, pass_fds=[reading])
orphan = int(parent.stdout.readline())
parent.kill()
os.close(writing)  # what the orphan waits for
os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
if sys.argv[1] == "own":
    assert reap_orphans([parent.pid, orphan]) == []
    assert os.waitpid(orphan, 0)[1] >> 8 == 3
else:
    assert orphan in reap_orphans([])
    assert reap_orphans([]) == []
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for whose in ("own", "others"):
        subprocess.run([sys.executable, "-c", script, whose], check=True, env=environment, timeout=60)
