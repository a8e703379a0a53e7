"""What every layer logs with the standard library comes out structured."""

import json
import logging
import threading
from collections.abc import Iterator

import pytest

from bucketingest.cli.process.logs import LogFormat, configure_logs, without_routine


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    hook = threading.excepthook
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    threading.excepthook = hook


@pytest.mark.parametrize("chosen", [LogFormat.JSON, LogFormat.AUTO])
def test_a_line_is_one_json_object_outside_a_terminal(chosen: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(chosen)
    logging.getLogger("bucketingest.stream.foreach_batch").info("committed", extra={"instant": "20261121", "rows": 5})
    captured = capsys.readouterr()
    record = json.loads(captured.err)
    assert list(record)[:3] == ["timestamp", "level", "event"]
    assert record["timestamp"].endswith("Z")
    del record["timestamp"]
    assert record == {
        "level": "info",
        "event": "committed",
        "logger": "bucketingest.stream.foreach_batch",
        "instant": "20261121",
        "rows": 5,
    }
    assert captured.out == ""


def test_an_error_in_json_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON)
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("bucketingest").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["exception"][0]["exc_value"] == "odd"


@pytest.mark.parametrize("chosen", [LogFormat.JSON, LogFormat.TEXT])
def test_no_secret_is_in_a_traceback_its_causes_notes_or_fields(
    chosen: LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "of-the-environment")
    configure_logs(chosen)
    local = "only-a-local-variable"
    log = logging.getLogger("bucketingest")
    try:
        try:
            raise ConnectionError("cannot reach https://me:hunter22@host/x")
        except ConnectionError as cause:
            error = ValueError("denied for of-the-environment")
            error.add_note("with password=hunter33")
            raise error from cause
    except ValueError as error:
        options = {"kafka.sasl.jaas.config": "odd", "deep": [{"api.key": "hunter44"}], "error": error}
        log.exception("failed", extra={"options": options, "reason": error})
    output = capsys.readouterr().err
    assert "ValueError" in output
    assert "ConnectionError" in output
    for secret in ("hunter22", "hunter33", "hunter44", "of-the-environment", local, '"odd"', "'odd'"):
        assert secret not in output, secret


@pytest.mark.parametrize("chosen", [LogFormat.JSON, LogFormat.TEXT])
def test_a_thread_that_ends_with_an_error_is_logged_without_secrets(
    chosen: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(chosen)

    def fail() -> None:
        raise ConnectionError("https://me:hunter22@host/x")

    thread = threading.Thread(target=fail, name="beats")
    thread.start()
    thread.join()
    output = capsys.readouterr().err
    assert "a thread ended with an error" in output
    assert "beats" in output
    assert "hunter22" not in output


def test_text_has_every_field_and_no_colours_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.TEXT)
    logging.getLogger("bucketingest.write").warning("rolled back", extra={"instant": "20261121", "reason": "a b"})
    line = capsys.readouterr().err
    assert "warning" in line
    assert "rolled back" in line
    assert "instant=20261121" in line
    assert "reason='a b'" in line
    assert "\x1b" not in line


@pytest.mark.parametrize(("debug", "lines"), [(False, 1), (True, 2)])
def test_debug_lines_of_ours_are_shown_on_request_and_others_never(
    debug: bool, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogFormat.JSON, debug=debug)
    logging.getLogger("bucketingest.spark").debug("detail")
    logging.getLogger("bucketingest.spark").info("news")
    logging.getLogger("py4j.clientserver").error("noise")
    logging.getLogger("another.library").info("noise")
    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("debug", "shown"), [(False, ["cannot", "afterwards"]), (True, ["routine", "cannot", "afterwards"])]
)
def test_routine_lines_are_left_out_while_a_panel_shows_the_same(
    debug: bool, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogFormat.JSON, debug=debug)
    logger = logging.getLogger("bucketingest.routine")
    with without_routine(logger):
        logger.info("routine")
        logger.warning("cannot")
    logger.info("afterwards")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == shown
