"""The one table of exit codes, for scripts and for an operator that sees only a code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class ExitCode(IntEnum):
    """How a command ended. 130 and 143 are those of a shell: 128 and the signal's number."""

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
    TABLE_LOCKED = 13
    SOURCE_DATA_LOST = 14
    SOURCE_UNAVAILABLE = 15
    JVM_FAILED = 16
    OUT_OF_MEMORY = 17
    POSITION_LOST = 18
    STOP_DEADLINE = 19
    INSTANT_HELD = 20
    CHECKPOINT_STALE = 21
    FINDINGS = 22
    CATALOG_FAILED = 23
    INTERRUPTED = 130
    TERMINATED = 143

    @property
    def word(self) -> str:
        """One CamelCase word for a status: `StorageUnavailable`."""
        return self.name.title().replace("_", "")


class Remedy(StrEnum):
    """Who can fix the cause of an exit code."""

    NONE = "none"
    """Nothing is wrong."""
    RESTART = "restart"
    """The same again, later, may help: the next start finishes or rolls back what was started."""
    PERSON = "person"
    """The same again ends the same way until a person changes something."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What an exit code means, for people, and who can fix its cause."""

    meaning: str
    remedy: Remedy


ENDINGS: Final[dict[ExitCode, Ending]] = {
    ExitCode.OK: Ending("done, or stopped with everything committed that was written", Remedy.NONE),
    ExitCode.DEFECT: Ending("a defect of bucketingest: please report it with its traceback", Remedy.RESTART),
    ExitCode.BAD_INPUT: Ending("the command line, the BucketIngest, its SQL or a location is wrong", Remedy.PERSON),
    ExitCode.TABLE_REFUSED: Ending("not a Hudi table, or not one that may be written this way", Remedy.PERSON),
    ExitCode.FENCED_OUT: Ending(
        "a newer attempt of the same pipeline has taken over, or the lock is lost", Remedy.RESTART
    ),
    ExitCode.SOURCE_CONFLICT: Ending(
        "source or checkpoint do not continue where the table is: rows would be lost or doubled", Remedy.PERSON
    ),
    ExitCode.STORAGE_UNAVAILABLE: Ending("storage does not answer", Remedy.RESTART),
    ExitCode.ACCESS_DENIED: Ending("storage denies access", Remedy.PERSON),
    ExitCode.ROWS_REJECTED: Ending(
        "rows cannot be written and errors.mode is fail, or messages have a schema that cannot be read and "
        "errors.schema is stop",
        Remedy.PERSON,
    ),
    ExitCode.QUERY_FAILED: Ending(
        "Spark or `query` ended the query, or did not start it, for a reason not named here", Remedy.RESTART
    ),
    ExitCode.WRITE_CONFLICT: Ending(
        "commits failed: other writers are active, or the input changes when read again", Remedy.RESTART
    ),
    ExitCode.MISSING_DEPENDENCY: Ending("Java, a jar or a Python package is missing", Remedy.PERSON),
    ExitCode.WRONG_RESULT: Ending("the demo read back other rows than it wrote", Remedy.PERSON),
    ExitCode.TABLE_LOCKED: Ending("another process holds the table's lock", Remedy.RESTART),
    ExitCode.SOURCE_DATA_LOST: Ending(
        "source data was lost before it was ingested: offsets expired, a topic or a file was deleted",
        Remedy.PERSON,
    ),
    ExitCode.SOURCE_UNAVAILABLE: Ending("the source does not answer", Remedy.RESTART),
    ExitCode.JVM_FAILED: Ending("Spark's JVM did not start, or is gone", Remedy.RESTART),
    ExitCode.OUT_OF_MEMORY: Ending("the JVM, an executor or a Python worker ran out of memory", Remedy.RESTART),
    ExitCode.POSITION_LOST: Ending("other writers repeatedly rolled this pipeline's commits back", Remedy.RESTART),
    ExitCode.STOP_DEADLINE: Ending("did not stop in time: the next start resumes", Remedy.RESTART),
    ExitCode.INSTANT_HELD: Ending(
        "rollback left instants alone that another process may still be writing; the others are done", Remedy.RESTART
    ),
    ExitCode.CHECKPOINT_STALE: Ending(
        "Spark's checkpoint was changed while the query ran: the next start makes a new one", Remedy.RESTART
    ),
    ExitCode.FINDINGS: Ending("inspect, audit, or sync --check --dry-run, has found something wrong", Remedy.PERSON),
    ExitCode.CATALOG_FAILED: Ending(
        "a catalog was not brought up to date: it does not answer, or refuses the table", Remedy.PERSON
    ),
    ExitCode.INTERRUPTED: Ending("killed by a second SIGINT", Remedy.RESTART),
    ExitCode.TERMINATED: Ending("killed by a second SIGTERM", Remedy.RESTART),
}
