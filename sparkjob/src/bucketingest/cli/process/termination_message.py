"""The termination message: how a job ended, in the file that Kubernetes keeps."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bucketingest.exit_codes import ENDINGS, ExitCode
from bucketingest.spec.job_report import TerminationReport

if TYPE_CHECKING:
    from bucketingest.stream.report.progress import Progress

log = logging.getLogger(__name__)

SIZE_MAX: Final = 4096
"""Bytes that Kubernetes keeps of a container's termination message."""
DEFAULT_PATH: Final = Path("/dev/termination-log")
"""Where Kubernetes mounts the file, unless the container says otherwise."""
_FIELD_MAX: Final = 200
_REFUSALS: Final = (ExitCode.TABLE_REFUSED, ExitCode.SOURCE_CONFLICT)


def termination_path(chosen: Path | None) -> Path | None:
    """The file to write: the chosen one, else Kubernetes' if it is there, else none.

    Kubernetes' is for the container's own process, which is number 1 or a child of an init that is. A command that runs
    next to it (`kubectl exec`) must not say how the container ended.
    """
    if chosen is not None:
        return chosen
    if 1 not in {os.getpid(), os.getppid()}:
        return None
    return DEFAULT_PATH if DEFAULT_PATH.is_file() and os.access(DEFAULT_PATH, os.W_OK) else None


def encode_report(report: TerminationReport) -> bytes:
    """The report as JSON in UTF-8 of at most `SIZE_MAX` bytes: the message is cut to fit, other fields to 200
    characters first. Pure.
    """
    document = report.model_dump(mode="json", by_alias=True, exclude_none=True)
    fields = {name: _cut(value, _FIELD_MAX) if name != "message" else value for name, value in document.items()}
    message = str(fields["message"])
    while len(encoded := _encode({**fields, "message": message})) > SIZE_MAX and message:
        # A character takes up to six bytes; the last cuts go one by one.
        excess = len(encoded) - SIZE_MAX
        message = _cut(message, max(0, len(message) - max(1, excess // 6)))
    return encoded


def _cut(value: Any, length: int) -> Any:
    if not isinstance(value, str) or len(value) <= length:
        return value
    return f"{value[: length - 1]}…" if length else ""


def _encode(document: dict[str, Any]) -> bytes:
    # Lone surrogates, from undecodable names, are not UTF-8.
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


class Termination:
    """Writes the message once: the first caller knows why the process ends. Safe in a signal handler."""

    def __init__(
        self, path: Path | None, redact: Callable[[str], str], progress: Callable[[], Progress | None]
    ) -> None:
        self._path = path
        self._progress = progress
        self._lock = threading.Lock()
        self.redact = redact
        self.pipeline: str | None = None

    def write(self, code: ExitCode, message: str, *, word: str | None = None) -> None:
        """Write the message. `word`: the error class, else the code's. Never raises: the process ends anyway."""
        if self._path is None or not self._lock.acquire(blocking=False):  # never released: there is one message
            return
        try:
            self._path.write_bytes(encode_report(self._report(code, message, word or code.word)))
        except OSError as error:
            log.warning("no termination message", extra={"path": str(self._path), "reason": str(error)})

    def _report(self, code: ExitCode, message: str, word: str) -> TerminationReport:
        now = self._progress()
        known: dict[str, Any] = {"verdict": "refused"} if code in _REFUSALS else {}
        if now is not None:
            last = None if now.last is None else now.last.instant_time
            known = {
                "epoch": now.epoch,
                "verdict": now.verdict or known.get("verdict"),
                "batch": now.batch,
                "instant": now.inflight_instant,
            }
            known |= {"last_instant": last, "rows": now.rows, "commits": now.commits}
        return TerminationReport(
            error_class=word,
            exit_code=code,
            message=self.redact(message),
            remedy=ENDINGS[code].remedy,
            pipeline=self.pipeline,
            at=datetime.now(UTC),
            **known,
        )
