"""Log lines of the operator: JSON for collectors, text for people; no secret in either."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, Final, Literal

import structlog
from structlog.typing import EventDict, Processor

from bucketingest.redaction import Redactor, secrets_in

LogFormat = Literal["json", "text"]

_QUIET: Final = {
    "aiohttp": logging.WARNING,
    "asyncio": logging.ERROR,
    # Kopf logs each event of each object; the operator logs its own failures.
    "kopf": logging.WARNING,
    "kopf.objects": logging.ERROR,
    "kopf._core.reactor.running": logging.ERROR,
}

_DECISION: Final = frozenset({"observation", "plan"})


def configure_logs(chosen: LogFormat, *, debug: bool = False) -> None:
    """Route every log record of this process to stderr, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(as_json=chosen == "json"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("bucketingest_operator").setLevel(logging.DEBUG if debug else logging.INFO)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def _formatter(*, as_json: bool) -> logging.Formatter:
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _rename,
    ]
    redact = Redactor(secrets_in(os.environ))
    if as_json:
        last: list[Processor] = [
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            _without_secrets(redact),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    else:
        last = [
            _brief,
            structlog.processors.format_exc_info,
            _without_secrets(redact),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False, pad_event_to=12),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )


def _without_secrets(redact: Redactor) -> Processor:
    """Messages of servers and libraries may repeat a URL or an option with its password."""

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, list):
            return [clean(each) for each in value]
        if isinstance(value, dict):
            return {name: clean(each) for name, each in value.items()}
        return value

    def process(_logger: Any, _name: str, event: EventDict) -> EventDict:
        # A decision has no secrets, and must stay as it is so that it can be replayed.
        return {name: value if name in _DECISION else clean(value) for name, value in event.items()}

    return process


def _rename(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """`name` is the resource's name; a record of the standard library already uses that key."""
    if "resource" in event:
        event["name"] = event.pop("resource")
    return event


def _brief(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """A person at a terminal reads the decision, not the whole observation."""
    if "observation" in event:
        event["plan"] = ", ".join(each["action"] for each in event["plan"]["actions"])
        del event["observation"]
    event.pop("logger", None)
    return event
