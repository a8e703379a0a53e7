"""What every layer logs with the standard library comes out structured."""

import json
import logging
from collections.abc import Iterator

import pytest

from bucketingest.cli.logs import LogFormat, configure_logs


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("chosen", [LogFormat.JSON, LogFormat.AUTO])
def test_a_line_is_one_json_object_where_nobody_looks(chosen: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(chosen)
    logging.getLogger("bucketingest.stream.query").info("committed", extra={"instant": "20261121", "rows": 5})
    captured = capsys.readouterr()
    record = json.loads(captured.err)
    assert list(record)[:3] == ["timestamp", "level", "event"]
    assert record["timestamp"].endswith("Z")
    del record["timestamp"]
    assert record == {
        "level": "info",
        "event": "committed",
        "logger": "bucketingest.stream.query",
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
    logging.getLogger("somebody.else").info("noise")
    assert len(capsys.readouterr().err.splitlines()) == lines
