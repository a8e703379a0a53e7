"""The one sentence that matters in what Spark says about a failed query: its messages are stacks of two languages."""

from __future__ import annotations

import re
from typing import Final

from bucketingest.errors import BucketIngestError

_LENGTH_MAX: Final = 600
_OURS: Final = re.compile(r"^\s*(?:\S+: )*?bucketingest(?:\.\w+)+\.(\w+): (.*)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*): (.+)$", re.MULTILINE)
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_REASON: Final = re.compile(r"^Reason:\s*(\S.*)$", re.MULTILINE)
_WRAPPINGS: Final = (
    re.compile(r"^An error occurred while calling \S+\n: "),
    re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL),
    re.compile(r"^.*?most recent failure: Lost task [^:]*?\([^)]*\)(?: \([^)]*\))*: ", re.DOTALL),
)


def essence(error: BaseException) -> tuple[str, str | None]:
    """What went wrong, in one line, and the name of the class of ours that a task raised, or None. Pure.

    Looks, in this order, for an error of this package, for what ended a Python traceback (the innermost comes last),
    for the JVM's last cause, and else takes the first line.
    """
    text = str(error).strip() or type(error).__name__
    if found := _OURS.findall(text):
        name, message = found[-1]
        return _cut(message), name
    if _TRACEBACK in text and (raised := _RAISED.findall(text.rpartition(_TRACEBACK)[2])):
        return _cut(": ".join(raised[0])), None
    if causes := _CAUSED_BY.findall(text):
        return _cut(causes[-1]), None
    for wrapping in _WRAPPINGS:
        text = wrapping.sub("", text)
    first = text.partition("\n")[0].strip()
    if reason := _REASON.search(text):  # as the Kafka source says which offsets are gone
        first = f"{first.rstrip(';')}: {reason[1]}"
    known = isinstance(error, BucketIngestError) or first.startswith("[") or ": " in first
    return _cut(first if known else f"{type(error).__name__}: {first}"), None


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LENGTH_MAX else f"{line[: _LENGTH_MAX - 1]}…"
