"""The row of a resource in `top`."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from bucketingest_operator.cli.top import row_of, screen, span

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def resource(name: str = "orders", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ingest", "name": name, "creationTimestamp": at(90_000)},
        "status": status,
    }


def condition(kind: str, status: str, reason: str = "Why", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_a_running_pipeline() -> None:
    row = row_of(
        resource(
            phase="Running",
            conditions=[condition("Ready", "True"), condition("Stalled", "False")],
            lastCommit={"time": at(95), "latencySeconds": 12.34},
            lag={"offsets": 12_345, "since": at(9)},
            attempt=3,
            attempts=[
                {"number": 1, "startedAt": at(80_000), "outcome": "DriverLost"},
                {"number": 2, "startedAt": at(3000), "outcome": "OutOfMemory"},
                {"number": 3, "startedAt": at(2000)},
            ],
        ),
        NOW,
    )
    assert (row.phase, row.ready, row.last_commit, row.latency) == ("Running", "True", "1m35s", "12.3s")
    assert (row.lag, row.attempt, row.restarts, row.age) == ("12,345 9s", "3", "2", "1d1h")
    assert row.note == "attempt 2 ended: OutOfMemory"


def test_a_first_attempt_is_no_restart() -> None:
    assert row_of(resource(attempt=1, attempts=[{"number": 1, "startedAt": at(5)}]), NOW).restarts == "0"


@pytest.mark.parametrize("status", [{}, {"conditions": None, "lag": {}, "attempts": None, "lastCommit": {"time": "?"}}])
def test_what_the_status_lacks_is_a_dash(status: dict[str, Any]) -> None:
    row = row_of(resource(**status), NOW)
    assert (row.phase, row.ready, row.last_commit, row.latency, row.lag, row.attempt) == ("-",) * 6
    assert (row.restarts, row.note) == ("0", "")


def test_what_stops_a_pipeline_is_shown_and_a_stall_first() -> None:
    conditions = [condition("Ready", "False", "NotReady"), condition("Stalled", "True", "BadSpec", "Correct it.")]
    assert row_of(resource(conditions=conditions), NOW).note == "BadSpec: Correct it."
    assert row_of(resource(conditions=conditions[:1]), NOW).note == "NotReady"


@pytest.mark.parametrize(
    "status",
    [
        {"lastCommit": {"latencySeconds": "9" * 400 + "s"}},
        {"attempts": [1], "conditions": ["x"]},
    ],
)
def test_a_status_that_cannot_be_read_has_a_line(status: dict[str, Any]) -> None:
    row = row_of(resource("odd", **status), NOW)
    assert (row.namespace, row.name, row.note) == ("ingest", "odd", "its status cannot be read")


def test_a_terminal_obeys_nothing_that_a_status_says() -> None:
    conditions = [condition("Ready", "False", "Why", "red \x1b[31m, \x9b2J, \u202e, two\nlines")]
    note = row_of(resource(conditions=conditions), NOW).note
    assert note == "Why: red  [31m,  2J,  , two lines"


def test_stalled_pipelines_come_first() -> None:
    rows = [row_of(resource(name, phase=phase), NOW) for name, phase in (("a", "Running"), ("z", "Stalled"))]
    assert [row.name for row in sorted(rows, key=lambda row: row.order)] == ["z", "a"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (3660, "1h1m"), (200_000, "2d7h")],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_the_screen_counts_phases_and_says_when_it_is_old() -> None:
    rows = [row_of(resource(name, phase="Running"), NOW) for name in ("a", "b[red]")]
    out = io.StringIO()
    Console(file=out, width=160).print(screen(rows, None, "no answer"))
    text = out.getvalue()
    assert "2 pipelines in all namespaces: 2 Running" in text
    assert "not up to date: no answer" in text
    assert "NAMESPACE" in text
    assert "b[red]" in text, "a name is no markup"
