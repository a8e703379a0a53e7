"""The termination message: small enough, valid and without secrets, whatever it has to say."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.cli.process.termination_message import SIZE_MAX, Termination, encode_report, termination_path
from bucketingest.exit_codes import ExitCode, Remedy
from bucketingest.redaction import Redactor
from bucketingest.spec.job_report import TerminationReport
from bucketingest.stream.report.progress import Progress
from bucketingest.write.coordinator_api import Commit

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def report(message: str, pipeline: str | None = None) -> TerminationReport:
    return TerminationReport(
        error_class="StorageUnavailable",
        exit_code=6,
        message=message,
        remedy=Remedy.RESTART,
        pipeline=pipeline,
        at=NOW,
    )


def test_a_short_message_is_kept_in_one_line() -> None:
    document = json.loads(encode_report(report("s3://lake does not answer; größer\nals 'gedacht'")))
    assert document == {
        "errorClass": "StorageUnavailable",
        "exitCode": 6,
        "message": "s3://lake does not answer; größer als 'gedacht'",
        "remedy": "restart",
        "at": "2026-11-21T12:00:00Z",
    }


@given(
    text=st.text(max_size=50) | st.sampled_from(["a", "ü", "漢", "😀", "\n", "\x00", '"', "\\", "\ud800"]),
    times=st.sampled_from([1, 100, 3000, 5000]),
    pipeline=st.none() | st.text(max_size=400),
)
def test_whatever_it_says_it_is_json_and_fits(text: str, times: int, pipeline: str | None) -> None:
    message = text * times
    encoded = encode_report(
        TerminationReport.model_construct(**{**vars(report("")), "message": message, "pipeline": pipeline})
    )
    assert len(encoded) <= SIZE_MAX
    document = json.loads(encoded)
    assert (document["errorClass"], document["exitCode"]) == ("StorageUnavailable", 6)
    sayable = message.encode("utf-8", errors="replace").decode()
    assert document["message"] == sayable or (
        document["message"].endswith("…")
        and sayable.startswith(document["message"][:-1])
        and len(encoded) > SIZE_MAX - 16
    )


@pytest.fixture
def progress() -> Progress:
    last = Commit("20261121115900000", "20261121115901000", 1, 5, 1, 100, 1.0, 0.1)
    return Progress(
        9.0, epoch=3, verdict="resumed", batch=41, last=last, inflight_instant="20261121115930000", rows=7, commits=2
    )


def test_it_says_where_the_job_was(tmp_path: Path, progress: Progress) -> None:
    file = tmp_path / "message"
    termination = Termination(file, Redactor(), lambda: progress)
    termination.pipeline = "shop/orders"
    termination.write(ExitCode.JVM_FAILED, "the JVM is gone: password=hunter22")
    document = json.loads(file.read_bytes())
    del document["at"]
    assert document == {
        "errorClass": "JvmFailed",
        "exitCode": 16,
        "message": "the JVM is gone: password=***",
        "remedy": "restart",
        "pipeline": "shop/orders",
        "epoch": 3,
        "verdict": "resumed",
        "batch": 41,
        "instant": "20261121115930000",
        "lastInstant": "20261121115900000",
        "rows": 7,
        "commits": 2,
    }
    TerminationReport.model_validate(json.loads(file.read_bytes()))


def test_the_first_message_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "message"
    termination = Termination(file, Redactor(), lambda: None)
    termination.write(ExitCode.STOP_DEADLINE, "too late")
    termination.write(ExitCode.OK, "all well")
    assert json.loads(file.read_bytes())["errorClass"] == "StopDeadline"


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Termination(tmp_path / "none" / "message", Redactor(), lambda: None).write(ExitCode.OK, "")
    assert "no termination message" in caplog.text


@pytest.mark.parametrize(("own", "parent"), [(1, 0), (7, 1)])
def test_without_a_path_it_is_kubernetes_own_file_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, parent: int
) -> None:
    there = tmp_path / "termination-log"
    monkeypatch.setattr("bucketingest.cli.process.termination_message.DEFAULT_PATH", there)
    monkeypatch.setattr("os.getpid", lambda: own)
    monkeypatch.setattr("os.getppid", lambda: parent)
    assert termination_path(None) is None
    there.touch()
    assert termination_path(None) == there
    assert termination_path(tmp_path / "other") == tmp_path / "other"


def test_a_command_next_to_the_containers_own_process_does_not_say_how_the_container_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "termination-log"
    there.touch()
    monkeypatch.setattr("bucketingest.cli.process.termination_message.DEFAULT_PATH", there)
    monkeypatch.setattr("os.getpid", lambda: 4711)
    monkeypatch.setattr("os.getppid", lambda: 0)
    assert termination_path(None) is None
