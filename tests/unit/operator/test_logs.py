"""Log lines of the operator: one line each, no secret, and decisions unchanged."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from bucketingest_operator.logs import _formatter

SECRET = "hunter2hunter2"


def line(*, as_json: bool = True, error: Exception | None = None, **extra: Any) -> str:
    record = logging.LogRecord("bucketingest_operator.x", logging.WARNING, "x.py", 1, "a pass failed", None, None)
    record.__dict__.update(extra)
    if error is not None:
        try:
            raise error
        except type(error):
            record.exc_info = sys.exc_info()
    return _formatter(as_json=as_json).format(record)


def test_a_line_names_its_resource() -> None:
    found = json.loads(line(namespace="ingest", resource="orders"))
    assert (found["event"], found["level"]) == ("a pass failed", "warning")
    assert (found["namespace"], found["name"]) == ("ingest", "orders")
    assert found["timestamp"].endswith("Z")


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_is_in_a_line(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    error = ValueError(f"cannot log in with {SECRET} at https://user:{SECRET}x@host/")
    text = line(as_json=as_json, error=error, said=f"password={SECRET}", more={"deep": [SECRET]})
    assert SECRET not in text
    assert "ValueError" in text


def test_values_of_variables_are_in_no_line() -> None:
    local = "only in a variable"

    def fail() -> str:
        raise KeyError("x")

    assert local
    error: Exception | None = None
    try:
        fail()
    except KeyError as caught:
        error = caught
    assert error is not None
    assert "only in a variable" not in line(error=error)


def test_a_decision_is_left_as_it_was_made() -> None:
    observation = {"resource": {"annotations": {"token": "token=abcdefgh"}}}
    plan: dict[str, Any] = {"actions": [{"action": "WriteStatus"}, {"action": "EmitEvent"}]}
    found = json.loads(line(observation=observation, plan=plan))
    assert found["observation"] == observation
    brief = line(as_json=False, observation=observation, plan=plan)
    assert "WriteStatus, EmitEvent" in brief
    assert "abcdefgh" not in brief
