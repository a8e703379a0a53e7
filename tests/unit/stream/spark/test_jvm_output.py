"""What Spark's JVM prints becomes log records of the right weight."""

import json
import logging

import pytest

from bucketingest.stream.spark.jvm import AGAIN_SECONDS, Repeats, _log_line, describe_end, parse_line


def line(logger: str, level: str = "ERROR", exception: str | None = None) -> str:
    return json.dumps({"level": level, "logger": logger, "message": "broke", "exception": exception})


def test_an_error_keeps_its_level_and_the_first_line_of_its_exception() -> None:
    level, message, extra = parse_line(line("org.apache.spark.storage.BlockManager", exception="no space\n\tat A"))
    assert (level, message) == (logging.ERROR, "broke")
    assert extra == {"spark_logger": "org.apache.spark.storage.BlockManager", "reason": "no space"}


def test_what_is_raised_in_python_too_is_logged_in_debug_only() -> None:
    assert parse_line(line("org.apache.spark.sql.execution.streaming.MicroBatchExecution"))[0] == logging.DEBUG


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("WARNING: Using incubator modules: jdk.incubator.vector", logging.DEBUG),
        ("# A fatal error has been detected by the Java Runtime Environment:", logging.WARNING),
        ('{"not": "a log record"}', logging.WARNING),
        ("[1, 2]", logging.WARNING),
    ],
)
def test_other_text_is_passed_on_unless_it_is_known_noise(text: str, level: int) -> None:
    assert parse_line(text) == (level, text, {})


def test_what_is_said_each_second_is_said_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    repeats = Repeats(lambda: now)
    for second in range(2 * int(AGAIN_SECONDS)):
        now = float(second)
        refused = f'pods "orders-exec-{second}" is forbidden: exceeded quota: memory, used: {second}Gi'
        _log_line(line("a.ExecutorPodsSnapshotsStoreImpl", exception=refused), repeats)
    first, again = caplog.records
    assert "exec-0" in first.__dict__["reason"]
    assert "times" not in first.__dict__
    assert again.__dict__["times"] == AGAIN_SECONDS


def test_another_reason_is_said_at_once_and_a_crash_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    repeats = Repeats(lambda: 0.0)
    for reason in ("quota a", "quota b", "quota a"):
        _log_line(line("a.Store", exception=reason), repeats)
    assert [each.__dict__["reason"] for each in caplog.records] == ["quota a", "quota b"]
    for _ in range(2):
        _log_line("# A fatal error has been detected", repeats)
    assert len(caplog.records) == 4


def test_what_is_remembered_has_a_limit() -> None:
    repeats = Repeats(lambda: 0.0)
    names = [f"{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(300)]
    assert all(repeats.times(name) == 1 for name in names)
    assert repeats.times(names[0]) == 1, "the oldest is forgotten"
    assert repeats.times(names[-1]) == 0
    assert len(repeats._said) <= 100
    assert len(repeats._unsaid) <= 100


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "exit code 3: java.lang.OutOfMemoryError"),
        (52, "exit code 52: java.lang.OutOfMemoryError"),
        (-9, "killed with SIGKILL, as the kernel does when memory runs out"),
        (-15, "ended by signal 15"),
        (1, "exit code 1"),
        (None, ""),
    ],
)
def test_the_end_of_a_jvm_in_words(code: int | None, words: str) -> None:
    assert describe_end(code) == words
