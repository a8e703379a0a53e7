"""Turns what all layers log with the standard library into structured lines: text for people, JSON for collectors."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from bucketingest.redaction import redacted, without_secrets


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    """text in a terminal, else json."""
    TEXT = "text"
    JSON = "json"


_QUIET = {"py4j": logging.CRITICAL, "pyspark": logging.ERROR, "SQLQueryContextLogger": logging.CRITICAL}
"""Loggers whose lines say nothing to a user: what matters of theirs is raised."""


class _Stderr(logging.StreamHandler[Any]):
    """Writes to whatever stderr is at the moment: a live panel takes it over to put lines above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr


def configure_logs(chosen: LogFormat, *, debug: bool = False) -> None:
    """Route every log record of this process to stderr. May be called again, with other choices."""
    terminal = sys.stderr.isatty()
    as_json = chosen is LogFormat.JSON or (chosen is LogFormat.AUTO and not terminal)
    handler = _Stderr()
    handler.setFormatter(_formatter(as_json=as_json, colours=terminal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("bucketingest").setLevel(logging.DEBUG if debug else logging.INFO)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    threading.excepthook = _thread_ended


@contextmanager
def without_routine(logger: logging.Logger) -> Iterator[None]:
    """Leave out what a logger says at level INFO, which a panel shows instead; with --debug everything is shown."""
    level = logger.level
    if not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    """Instead of a bare traceback on stderr."""
    if ended.exc_type is SystemExit or ended.exc_value is None:
        return
    name = "" if ended.thread is None else ended.thread.name
    logging.getLogger("bucketingest").error(
        "a thread ended with an error",
        extra={"thread_name": name},
        exc_info=(ended.exc_type, ended.exc_value, ended.exc_traceback),
    )


def _formatter(*, as_json: bool, colours: bool) -> logging.Formatter:
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A traceback becomes text before secrets are taken out. Local variables are never in it.
    if as_json:
        as_values = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        last: list[Processor] = [
            structlog.processors.ExceptionRenderer(as_values),
            _without_secrets,
            _order,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    else:
        plain = structlog.dev.plain_traceback
        last = [
            structlog.processors.format_exc_info,
            _without_secrets,
            _drop_logger,
            structlog.dev.ConsoleRenderer(colors=colours, sort_keys=False, pad_event_to=12, exception_formatter=plain),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )


def _without_secrets(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What servers and libraries say may repeat a URL or an option with its password."""
    return {name: without_secrets(value, redacted) for name, value in event.items()}


def _order(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """When, how bad and what come first, so that a line can be read without a tool."""
    first = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return {**first, **event}


def _drop_logger(_logger: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A person at a terminal reads what happened, not which module said it."""
    event.pop("logger", None)
    return event
