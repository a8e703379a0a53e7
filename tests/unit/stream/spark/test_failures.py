"""The one line of Spark's stacks that says what went wrong."""

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkValueError, StreamingQueryException

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.exit_codes import ExitCode
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.spark.failures import checkpoint_failure, essence, got_no_answer

WORKER = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/bucketingest/write/rows/bucket_writer.py", line 60, in write_task
    publish(storage)
{raised}
"""


def test_our_own_error_in_a_task_comes_back_with_its_name() -> None:
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


def ended_with(stack: str) -> StreamingQueryException:
    error = StreamingQueryException(f"[STREAM_FAILED] Query terminated: {stack.partition(chr(10))[0]}")
    vars(error)["_stackTrace"] = stack  # as PySpark's captured errors have it
    return error


IN_A_CHECKPOINT = "\tat org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog.write(X.scala:1)\n"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("java.io.IOException: No space left on device", ExitCode.STORAGE_UNAVAILABLE),
        ("/c/offsets/.1.tmp (Read-only file system)", ExitCode.ACCESS_DENIED),
        ("/c/offsets/.1.tmp (Permission denied)", ExitCode.ACCESS_DENIED),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_named(said: str, code: ExitCode) -> None:
    error = checkpoint_failure(ended_with(f"{said}\n{IN_A_CHECKPOINT}"), "/c")
    assert error is not None
    assert str(error).startswith("/c: Spark cannot write its checkpoint: ")
    assert exit_code(error) is code


@pytest.mark.parametrize("said", [f"java.lang.IllegalStateException: x\n{IN_A_CHECKPOINT}", "No space left on device"])
def test_what_is_not_about_a_checkpoint_is_left(said: str) -> None:
    assert checkpoint_failure(ended_with(said), "/c") is None, "such as Spark's scratch disk"


def test_of_javas_causes_the_last_counts() -> None:
    text = "Job aborted.\n\tat org.A\nCaused by: java.io.IOException: a\n\tat B\nCaused by: java.net.X: b\n\tat C"
    assert essence(RuntimeError(text)) == ("java.net.X: b", None)


NO_MODULE = """\
An error occurred while calling o187.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:\x20
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 1.0 failed 1 times, most \
recent failure: Lost task 1.0 in stage 1.0 (TID 1) (192.0.2.2 executor driver): org.apache.spark.SparkException:\x20
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'x' (ModuleNotFoundError: No module named 'x')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: No port number in pyspark.daemon's stdout
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:245)
Caused by: org.apache.spark.SparkException:\x20
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'x' (ModuleNotFoundError: No module named 'x')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
"""
NO_INTERPRETER = """\
Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 \
(TID 0) (192.0.2.2 executor driver): java.io.IOException: Cannot run program "/opt/python9": error=2, No such file
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=2, No such file
\tat java.base/java.lang.ProcessImpl.forkAndExec(Native Method)
"""
OTHER_VERSION = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 3000, in main
    check_python_version(infile)
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: \
3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NO_MODULE, "ModuleNotFoundError: No module named 'x'"),
        (NO_INTERPRETER, "/opt/python9: error=2, No such file"),
        (OTHER_VERSION, "Python in worker has different version: 3.12"),
    ],
    ids=["no module", "no interpreter", "other version"],
)
def test_why_a_worker_does_not_start_is_reported(text: str, said: str) -> None:
    line, _ = essence(RuntimeError(text))
    assert said in line
    assert exit_code(QueryFailed(line, details=text)) is ExitCode.MISSING_DEPENDENCY


def test_a_cause_that_says_nothing_is_passed_over() -> None:
    text = "x.\nCaused by: java.io.IOException: disk full\n\tat A\nCaused by: org.apache.spark.SparkException: \n\tat B"
    assert essence(RuntimeError(text)) == ("java.io.IOException: disk full", None)


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


class Answered(Py4JJavaError):  # type: ignore[misc]
    """Without a JVM that is asked for the text."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        return "An error occurred while calling o1.x"


def wrapped(call: Exception) -> Exception:
    """As `DataFrame.schema` wraps whatever a call raises."""
    try:
        try:
            raise call
        except Exception as error:  # noqa: BLE001 - as PySpark does
            raise PySparkValueError(errorClass="CANNOT_PARSE_DATATYPE", messageParameters={"msg": str(error)})  # noqa: B904
    except PySparkValueError as error:
        return error


@pytest.mark.parametrize(
    "call", [Py4JNetworkError("no answer"), Py4JError("An error occurred while calling o440.schema")]
)
def test_a_call_without_an_answer_is_known_whatever_it_was_made_into(call: Exception) -> None:
    assert got_no_answer(call)
    assert got_no_answer(wrapped(call))


def test_an_error_that_the_jvm_answered_with_is_none_of_them() -> None:
    answered = Answered()
    assert not got_no_answer(answered)
    assert not got_no_answer(wrapped(answered))
    assert not got_no_answer(ValueError("another"))
    assert not got_no_answer(None)
