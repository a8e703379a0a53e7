"""The one table of exit codes, so that a script, or an operator that sees only a code, can decide what to do next."""

from __future__ import annotations

from enum import IntEnum

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import HudiError
from bucketingest.index.errors import BucketIndexError
from bucketingest.spec.errors import SpecError
from bucketingest.storage import AccessDenied, InvalidLocation, StorageError
from bucketingest.write.errors import (
    ConflictingAttempt,
    FencedOut,
    InstantAborted,
    RangeConflict,
    RowsRejected,
    WriteError,
)


class ExitCode(IntEnum):
    """What the end of a command means. 130 and 143 are those of a shell: 128 and the signal's number."""

    OK = 0
    DEFECT = 1
    BAD_INPUT = 2
    TABLE_REFUSED = 3
    FENCED_OUT = 4
    SOURCE_CONFLICT = 5
    STORAGE_UNAVAILABLE = 6
    ACCESS_DENIED = 7
    ROWS_REJECTED = 8
    QUERY_FAILED = 9
    WRITE_CONFLICT = 10
    MISSING_DEPENDENCY = 11
    WRONG_RESULT = 12
    INSTANT_HELD = 13
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done, or stopped after a whole micro-batch",
    ExitCode.DEFECT: "a defect of bucketingest: please report it with its traceback",
    ExitCode.BAD_INPUT: "the command line, the BucketIngest, its SQL or a location is wrong; trying again cannot help",
    ExitCode.TABLE_REFUSED: "the table is none, or not one that may be written this way",
    ExitCode.FENCED_OUT: "a newer attempt of the same pipeline has taken over",
    ExitCode.SOURCE_CONFLICT: "source or checkpoint do not continue where the table is: rows would be lost or doubled",
    ExitCode.STORAGE_UNAVAILABLE: "storage does not answer; trying again may help",
    ExitCode.ACCESS_DENIED: "storage denies access",
    ExitCode.ROWS_REJECTED: "rows cannot be written and errors.mode is fail",
    ExitCode.QUERY_FAILED: "Spark ended the query, or did not start",
    ExitCode.WRITE_CONFLICT: "commits failed: other writers are at work, or the input changes when read again",
    ExitCode.MISSING_DEPENDENCY: "Java, a jar or a Python package is missing",
    ExitCode.WRONG_RESULT: "the demo read back other rows than it wrote",
    ExitCode.INSTANT_HELD: "rollback left instants alone on which somebody may be at work; the others are done",
    ExitCode.INTERRUPTED: "ended at once by a second SIGINT",
    ExitCode.TERMINATED: "ended at once by a second SIGTERM",
}

# The first class that fits decides; errors of `stream` by name, as naming their classes would import pyspark.
_BY_CLASS: tuple[tuple[type[BucketIngestError], ExitCode], ...] = (
    (SpecError, ExitCode.BAD_INPUT),
    (InvalidLocation, ExitCode.BAD_INPUT),
    (AccessDenied, ExitCode.ACCESS_DENIED),
    (StorageError, ExitCode.STORAGE_UNAVAILABLE),
    (HudiError, ExitCode.TABLE_REFUSED),
    (BucketIndexError, ExitCode.TABLE_REFUSED),
    (FencedOut, ExitCode.FENCED_OUT),
    (RangeConflict, ExitCode.SOURCE_CONFLICT),
    (RowsRejected, ExitCode.ROWS_REJECTED),
    (ConflictingAttempt, ExitCode.WRITE_CONFLICT),
    (InstantAborted, ExitCode.WRITE_CONFLICT),
    (WriteError, ExitCode.WRITE_CONFLICT),
)
_BY_NAME: dict[str, ExitCode] = {
    "InvalidTransform": ExitCode.BAD_INPUT,
    "UnsupportedSetting": ExitCode.BAD_INPUT,
    "MissingConnector": ExitCode.MISSING_DEPENDENCY,
    "MissingDependency": ExitCode.MISSING_DEPENDENCY,
    "CheckpointUnreadable": ExitCode.SOURCE_CONFLICT,
    "WrongResult": ExitCode.WRONG_RESULT,
    "RollbackRefused": ExitCode.TABLE_REFUSED,
    "InstantHeld": ExitCode.INSTANT_HELD,
    "NotEmpty": ExitCode.BAD_INPUT,
    "BrokerUnavailable": ExitCode.MISSING_DEPENDENCY,
    "InvalidKeyRule": ExitCode.BAD_INPUT,
    "MissingKeyColumn": ExitCode.BAD_INPUT,
    "UnsupportedKeyType": ExitCode.BAD_INPUT,
}


def exit_code(error: BucketIngestError) -> ExitCode:
    """The code for an error that ends a command. What a task raised counts as itself: Spark tells its name."""
    name = getattr(error, "cause", None) or type(error).__name__
    if name in _BY_NAME:
        return _BY_NAME[name]
    for cls, code in _BY_CLASS:
        if isinstance(error, cls) or name in _names_below(cls):
            return code
    return ExitCode.QUERY_FAILED


def _names_below(cls: type[BucketIngestError]) -> set[str]:
    return {cls.__name__}.union(*(_names_below(each) for each in cls.__subclasses__()))


def exit_code_table() -> str:
    """The table as text, for `bucketingest --help`."""
    return "\n\n".join(f"{code.value}: {meaning}." for code, meaning in MEANINGS.items())
