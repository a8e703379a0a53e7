"""The demo, as a user sees it: in a terminal with a live panel, and from Kafka."""

import os
import pty
import shlex
import threading
from pathlib import Path

import pytest

from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from devservers.kafka import KafkaBroker
from support.jobs.command_process import CommandProcess, run_command

DEMO_REGIONS = [["north"], ["south"]]


def read_all(descriptor: int, into: list[bytes]) -> None:
    """Until no process holds the terminal's other end."""
    try:
        while data := os.read(descriptor, 65536):
            into.append(data)
    except OSError:
        return


def test_in_a_terminal_it_shows_a_panel_and_reads_back_what_it_wrote(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    our_end, its_end = pty.openpty()
    seen: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(our_end, seen))
    reader.start()
    arguments = ("demo", "--seconds", 4, "--rows", 1000, "--directory", tmp_path)
    with CommandProcess(*arguments, log=tmp_path / "demo.log", stderr=its_end) as process:
        os.close(its_end)
        assert process.wait() == ExitCode.OK, process.output
        assert process.left_behind() == []
    reader.join()
    os.close(our_end)
    terminal = b"".join(seen).decode()
    for text in ("rows/s", "commit latency", "inflight instant", "Ctrl-C to stop", "last commit"):
        assert text in terminal
    assert "commit_seconds" not in terminal, "the panel shows commits, no line for each"
    assert "WARN" not in terminal
    assert "Every sensor is there once, with its newest reading." in process.output
    assert f"bucketingest inspect {tmp_path}/table" in process.output
    asked = next(line for line in process.output.splitlines() if line.strip().startswith("bucketingest query"))
    assert call(shlex.split(asked)[1:]) == ExitCode.OK
    assert sorted(line.split()[:1] for line in capfd.readouterr().out.splitlines()[1:]) == DEMO_REGIONS
    assert call(["validate", str(tmp_path / "demo.yaml")]) == ExitCode.OK
    assert call(["inspect", str(tmp_path / "table")]) == ExitCode.OK
    assert "Nothing wrong found." in capfd.readouterr().out


@pytest.mark.kafka
def test_from_kafka_it_compares_what_was_produced_with_what_is_read_back(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    broker = kafka_broker.bootstrap_servers
    arguments = ("demo", "--kafka", "--bootstrap-servers", broker, "--seconds", 3, "--rows", 1000)
    code, output = run_command(*arguments, "--directory", tmp_path, log=tmp_path / "demo.log")
    assert code == ExitCode.OK, output
    assert "3,000 messages were produced, 3,000 ingested" in output
    assert "0 missing, 0 too many, 0 with other values" in " ".join(output.split())
    assert "Every order is there once" in output


def test_a_broker_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.cli.demo.orders.REQUEST_SECONDS", 1.0)
    assert call(["demo", "--kafka", "--bootstrap-servers", "127.0.0.1:1", "--directory", str(tmp_path)]) == (
        ExitCode.MISSING_DEPENDENCY
    )
