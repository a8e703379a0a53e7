"""Every error has the code of its class, also where a task raised it and only its name came back."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from bucketingest.cli.errors import BadOption, MissingDependency, WrongResult
from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.exit_codes import ENDINGS, ExitCode
from bucketingest.hudi.errors import LockLost, TableNotFound, UnsupportedTable
from bucketingest.index.errors import DuplicateFileGroup, MissingKeyColumn
from bucketingest.lease.record import LeaseLost, TableLeased
from bucketingest.spec.errors import SpecError
from bucketingest.storage import AccessDenied, InvalidLocation, StorageUnavailable
from bucketingest.stream.errors import (
    AddressUnusable,
    CheckpointLost,
    CheckpointUnreadable,
    InvalidTransform,
    JvmFailed,
    MissingConnector,
    QueryFailed,
)
from bucketingest.write.errors import (
    ConflictingAttempt,
    FencedOut,
    IncompleteReport,
    PositionLost,
    RangeConflict,
    RowsRejected,
)


def query_failed(text: str, because: str = "") -> QueryFailed:
    """As a query ends: one line for people, and what Spark said after it."""
    return QueryFailed(f"the query ended with an error: {text}", details=because)


KAFKA_GONE = "StreamingQueryException: Some data may have been lost because they are not available in Kafka any more;"
KAFKA_LOSS = "org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] Some"
KAFKA_SILENT = (
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics"
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError([]), ExitCode.BAD_INPUT),
        (InvalidTransform(""), ExitCode.BAD_INPUT),
        (InvalidLocation(""), ExitCode.BAD_INPUT),
        (MissingKeyColumn(""), ExitCode.BAD_INPUT),
        (TableNotFound(""), ExitCode.TABLE_REFUSED),
        (UnsupportedTable("", []), ExitCode.TABLE_REFUSED),
        (DuplicateFileGroup("", 1, ("a", "b")), ExitCode.TABLE_REFUSED),
        (FencedOut(""), ExitCode.FENCED_OUT),
        (RangeConflict(""), ExitCode.SOURCE_CONFLICT),
        (CheckpointUnreadable(""), ExitCode.SOURCE_CONFLICT),
        (StorageUnavailable(""), ExitCode.STORAGE_UNAVAILABLE),
        (AccessDenied(""), ExitCode.ACCESS_DENIED),
        (RowsRejected(""), ExitCode.ROWS_REJECTED),
        (QueryFailed(""), ExitCode.QUERY_FAILED),
        (JvmFailed(""), ExitCode.JVM_FAILED),
        (JvmFailed("Spark's JVM is gone (exit code 3: java.lang.OutOfMemoryError)"), ExitCode.OUT_OF_MEMORY),
        (Py4JNetworkError("Answer from Java side is empty"), ExitCode.JVM_FAILED),
        (MemoryError(), ExitCode.OUT_OF_MEMORY),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (ZeroDivisionError(), ExitCode.DEFECT),
        (query_failed("java.lang.OutOfMemoryError: Java heap space"), ExitCode.OUT_OF_MEMORY),
        (query_failed("ExecutorLostFailure (executor 1 exited): exit code 137"), ExitCode.OUT_OF_MEMORY),
        (query_failed("The executor with id 1 exited with exit code 3(unexpected)."), ExitCode.OUT_OF_MEMORY),
        (query_failed("The executor with id 1 exited with exit code 52(JVM OOM)."), ExitCode.OUT_OF_MEMORY),
        (query_failed("Command exited with code 52"), ExitCode.OUT_OF_MEMORY),
        (query_failed("The executor with id 1 exited with exit code 139(SIGSEGV)."), ExitCode.QUERY_FAILED),
        (query_failed(KAFKA_GONE), ExitCode.SOURCE_DATA_LOST),
        (query_failed("Job aborted", f"caused by {KAFKA_LOSS}"), ExitCode.SOURCE_DATA_LOST),
        (query_failed("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error"), ExitCode.SOURCE_DATA_LOST),
        (query_failed(KAFKA_SILENT), ExitCode.SOURCE_UNAVAILABLE),
        (query_failed("org.apache.kafka.common.errors.SaslAuthenticationException: bad"), ExitCode.ACCESS_DENIED),
        (query_failed("odd row"), ExitCode.QUERY_FAILED),
        (query_failed("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."), ExitCode.CHECKPOINT_STALE),
        (LockLost(""), ExitCode.FENCED_OUT),
        (PositionLost(""), ExitCode.POSITION_LOST),
        (TableLeased(""), ExitCode.TABLE_LOCKED),
        (LeaseLost(""), ExitCode.FENCED_OUT),
        (CheckpointLost(""), ExitCode.SOURCE_CONFLICT),
        (BadOption(""), ExitCode.BAD_INPUT),
        (AddressUnusable(""), ExitCode.BAD_INPUT),
        (ConflictingAttempt(""), ExitCode.WRITE_CONFLICT),
        (IncompleteReport(""), ExitCode.WRITE_CONFLICT),
        (MissingConnector(""), ExitCode.MISSING_DEPENDENCY),
        (MissingDependency(""), ExitCode.MISSING_DEPENDENCY),
        (WrongResult(""), ExitCode.WRONG_RESULT),
        (QueryFailed("", "AccessDenied"), ExitCode.ACCESS_DENIED),
        (QueryFailed("", "StorageUnavailable"), ExitCode.STORAGE_UNAVAILABLE),
        (QueryFailed("", "SomethingElse"), ExitCode.QUERY_FAILED),
    ],
)
def test_the_code_of_an_error(error: BaseException, code: ExitCode) -> None:
    assert exit_code(error) is code


def test_every_code_is_documented_with_its_word_and_its_remedy() -> None:
    page = (Path(__file__).parents[3] / "docs" / "job-contract.md").read_text()
    for code, ending in ENDINGS.items():
        assert f"| {code.value} | {code.word} | {ending.meaning} | {ending.remedy.value} |" in page


def test_words_and_values_are_unique() -> None:
    assert (
        len({code.word for code in ExitCode}) == len({code.value for code in ExitCode}) == len(ExitCode) == len(ENDINGS)
    )
