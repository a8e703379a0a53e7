"""What a failure of Spark says: the one sentence that matters among stacks of two languages, and whether there was a
JVM to say it.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError

from bucketingest.errors import BucketIngestError
from bucketingest.storage import AccessDenied, StorageError, StorageUnavailable

_LENGTH_MAX: Final = 600
_OWN_ERROR: Final = re.compile(r"^\s*(?:\S+: )*?bucketingest(?:\.\w+)+\.(\w+): (.*)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*): (.+)$", re.MULTILINE)
_CAUSED_BY: Final = re.compile(r"^Caused by: (\S.*)$", re.MULTILINE)
_EXCEPTION_ALONE: Final = re.compile(r"[\w.$]+:?")
_WORKER_ENDED: Final = re.compile(r"^Error from python worker:\n(.*?)^PYTHONPATH was:", re.MULTILINE | re.DOTALL)
_NO_WORKER: Final = re.compile(r"Cannot run program \"([^\"]*python[^\"]*)\".*?: (error=\d+, .*)$", re.MULTILINE)
_WORKER_HINT: Final = "PYSPARK_PYTHON must name a Python with bucketingest in it, on every node"
_REASON: Final = re.compile(r"^Reason:\s*(\S.*)$", re.MULTILINE)
_CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing."
"""Package of the code that writes a checkpoint's files (Spark 4.2)."""
_NO_ROOM: Final = re.compile(r"No space left on device|Disk quota exceeded")
_NO_RIGHT: Final = re.compile(r"Read-only file system|Permission denied|AccessDenied")
_WRAPPINGS: Final = (
    re.compile(r"^An error occurred while calling \S+\n: "),
    re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL),
    re.compile(r"^.*?most recent failure: Lost task [^:]*?\([^)]*\)(?: \([^)]*\))*: ", re.DOTALL),
)


def essence(error: BaseException) -> tuple[str, str | None]:
    """What went wrong, in one line, and the name of our error class that a task raised, or None. Pure.

    Looks, in this order, for an error of this package, for a Python worker that did not start, for the last error of a
    Python traceback (the innermost), for the JVM's last cause with a message, and else takes the first line.
    """
    text = str(error).strip() or type(error).__name__
    if found := _OWN_ERROR.findall(text):
        name, message = found[-1]
        return _cut(message), name
    if (said := _why_no_worker(text)) is not None:
        return _cut(f"a Python worker did not start: {said}; {_WORKER_HINT}"), None
    if _TRACEBACK in text and (raised := _RAISED.findall(text.rpartition(_TRACEBACK)[2])):
        return _cut(": ".join(raised[0])), None
    causes = [cause.strip() for cause in _CAUSED_BY.findall(text)]
    if explained := [cause for cause in causes if not _EXCEPTION_ALONE.fullmatch(cause)] or causes:
        return _cut(explained[-1]), None
    for wrapping in _WRAPPINGS:
        text = wrapping.sub("", text)
    first = text.partition("\n")[0].strip()
    if reason := _REASON.search(text):  # as the Kafka source says which offsets are gone
        first = f"{first.rstrip(';')}: {reason[1]}"
    known = isinstance(error, BucketIngestError) or first.startswith("[") or ": " in first
    return _cut(first if known else f"{type(error).__name__}: {first}"), None


def checkpoint_failure(error: BaseException, url: str) -> StorageError | None:
    """Why Spark could not write its checkpoint at this URL: a full disk, or one that it may not write to. Pure.

    Java's error for the first names no path, and for the second a temporary file's. Only the stack, which PySpark's
    message leaves out, says what Spark was doing.
    """
    stack = str(getattr(error, "_stackTrace", ""))
    if _CHECKPOINTS not in stack:
        return None
    if found := _NO_ROOM.search(stack):
        return StorageUnavailable(f"{url}: Spark cannot write its checkpoint: {found[0]}; make room on this disk")
    if found := _NO_RIGHT.search(stack):
        return AccessDenied(f"{url}: Spark cannot write its checkpoint: {found[0]}; let this user write there")
    return None


def got_no_answer(error: BaseException | None) -> bool:
    """Whether the JVM did not answer a call, whatever this was made into: PySpark takes some for an error of its own
    (`DataFrame.schema`: CANNOT_PARSE_DATATYPE). Pure.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _why_no_worker(text: str) -> str | None:
    """The message of the interpreter that failed as a Python worker, or why there is none; None if workers start."""
    if ended := _WORKER_ENDED.findall(text):
        lines = [line.strip() for line in ended[-1].splitlines() if line.strip()]
        return lines[-1] if lines else None
    if missing := _NO_WORKER.findall(text):
        program, reason = missing[-1]
        return f"{program}: {reason}"
    return None


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LENGTH_MAX else f"{line[: _LENGTH_MAX - 1]}…"
