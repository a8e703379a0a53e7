"""What Spark's JVM prints becomes log records of the right weight."""

import json
import logging

import pytest

from bucketingest.stream.spark.jvm import describe_end, parse_line


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
