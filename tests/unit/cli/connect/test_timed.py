"""A check has a limit of time, and raises what it raises."""

from __future__ import annotations

import threading

import pytest

from bucketingest.cli.connect.results import Check, CheckTimedOut, Results, within
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.storage import StorageUnavailable


def test_a_check_that_does_not_end_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(CheckTimedOut, match=r"storage has not answered within 0\.01 s"):
        within(0.01, "storage", never.wait, margin=0.0)
    never.set()


def test_what_a_check_returns_and_raises_is_its_own() -> None:
    def fails() -> None:
        raise StorageUnavailable("s3://lake does not answer")

    assert within(10, "storage", lambda: None) is None
    with pytest.raises(StorageUnavailable, match="s3://lake does not answer"):
        within(10, "storage", fails)


def test_a_failure_is_noted_with_its_code_and_others_go_on() -> None:
    shown: list[Check] = []
    results = Results(shown.append)

    def fails() -> str:
        raise StorageUnavailable("s3://lake does not answer")

    assert results.check("storage", 10, fails, str) is None
    assert results.check("source", 10, lambda: "found", str) == "found"
    assert results.check("sql", 10, lambda: 1 // 0, str) is None
    assert [(each.name, each.code) for each in shown] == [
        ("storage", ExitCode.STORAGE_UNAVAILABLE),
        ("source", ExitCode.OK),
        ("sql", ExitCode.DEFECT),
    ]
    assert [each.name for each in results.failed] == ["storage", "sql"]
    assert issubclass(CheckTimedOut, BucketIngestError)
