"""The one line of Spark's stacks that says what went wrong."""

import pytest

from bucketingest.stream.spark.failures import essence

WORKER = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/bucketingest/write/rows/bucket_writer.py", line 60, in write_task
    publish(storage)
{raised}
"""


def test_an_error_of_ours_in_a_task_comes_back_with_its_name() -> None:
    raised = "bucketingest.storage.errors.AccessDenied: s3://lake/orders: access denied; check the credentials"
    assert essence(RuntimeError(WORKER.format(raised=raised))) == (
        "s3://lake/orders: access denied; check the credentials",
        "AccessDenied",
    )


def test_of_a_python_traceback_the_last_line_counts() -> None:
    assert essence(RuntimeError(WORKER.format(raised="ValueError: no such column"))) == (
        "ValueError: no such column",
        None,
    )


def test_of_javas_causes_the_last_counts() -> None:
    text = "Job aborted.\n\tat org.A\nCaused by: java.io.IOException: a\n\tat B\nCaused by: java.net.X: b\n\tat C"
    assert essence(RuntimeError(text)) == ("java.net.X: b", None)


def test_a_reason_further_down_belongs_to_it() -> None:
    text = (
        "Some data may have been lost;\neither aged out\nor deleted.\nReason:\nPartition t-0 offset was changed.\nMore"
    )
    assert essence(RuntimeError(text)) == ("Some data may have been lost: Partition t-0 offset was changed.", None)


STREAM = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: disk full SQLSTATE: XXKST\nmore"
LOST_TASK = """\
Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent failure: Lost task 0.0 in stage 2.0 \
(TID 2) (localhost executor driver): java.lang.OutOfMemoryError: Java heap space
Driver stacktrace:"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (STREAM, "disk full SQLSTATE: XXKST"),
        (LOST_TASK, "java.lang.OutOfMemoryError: Java heap space"),
        (
            "An error occurred while calling o7.start.\n: org.apache.x.NoSuchThing: no scheme s3\n\tat x.Y.z(Y:1)",
            "org.apache.x.NoSuchThing: no scheme s3",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==", "[DIVIDE_BY_ZERO] Division by zero."),
    ],
    ids=["stream", "task", "call", "plain"],
)
def test_sparks_wrappings_are_taken_off(text: str, line: str) -> None:
    assert essence(RuntimeError(text)) == (line, None)


def test_an_error_without_text_has_its_name() -> None:
    assert essence(KeyError()) == ("KeyError: KeyError", None)


def test_a_line_is_never_longer_than_a_screen_can_show() -> None:
    assert len(essence(RuntimeError("x: " + "y" * 100_000))[0]) == 600
