"""Every error has the code of its class, also where a task raised it and only its name came back."""

import pytest

from bucketingest.cli.errors import MissingDependency, WrongResult
from bucketingest.cli.exit_codes import ExitCode, exit_code
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import TableNotFound, UnsupportedTable
from bucketingest.index.errors import DuplicateFileGroup, MissingKeyColumn
from bucketingest.spec.errors import SpecError
from bucketingest.storage import AccessDenied, InvalidLocation, StorageUnavailable
from bucketingest.stream.errors import (
    CheckpointUnreadable,
    InvalidTransform,
    JvmFailed,
    MissingConnector,
    QueryFailed,
    UnsupportedSetting,
)
from bucketingest.write.errors import ConflictingAttempt, FencedOut, IncompleteReport, RangeConflict, RowsRejected


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError([]), ExitCode.BAD_INPUT),
        (InvalidTransform(""), ExitCode.BAD_INPUT),
        (UnsupportedSetting(""), ExitCode.BAD_INPUT),
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
        (JvmFailed(""), ExitCode.QUERY_FAILED),
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
def test_the_code_of_an_error(error: BucketIngestError, code: ExitCode) -> None:
    assert exit_code(error) is code
