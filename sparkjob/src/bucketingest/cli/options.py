"""Options of commands, as text from flags or the environment, and the file that a command is about."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from bucketingest.cli.errors import BadOption
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.quantity import parse_duration
from bucketingest.spec.reading.load import load_file

log = logging.getLogger(__name__)

TERMINATION_LOG_VARIABLE: Final = "BUCKETINGEST_TERMINATION_LOG"
"""Environment variable: the file for the termination message, of any command."""
DEFAULT_GRACE: Final = "25s"
"""Below the thirty seconds that Kubernetes gives a pod, with time to say how it ended."""
_DEFAULT_GRACE: Final = parse_duration(DEFAULT_GRACE)


class UnknownFields(StrEnum):
    """What happens to a field of the spec that this version does not know."""

    REFUSE = "refuse"
    """For people: it is a typing error."""
    IGNORE = "ignore"
    """With a warning, for the operator: it may be newer than the job's image."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `host` "": every address of the machine."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a pipeline."""

    once: bool = False
    grace: timedelta = _DEFAULT_GRACE
    """Time from the first stop signal to the end."""
    listen: Address | None = None
    """None: no endpoints."""
    termination_log: Path | None = None
    """None: Kubernetes' own file where there is one."""
    service_jobs: bool = False
    """Whether an operator makes Jobs for compactions of this run."""
    unknown_fields: UnknownFields = UnknownFields.REFUSE
    ended_drivers: frozenset[str] = frozenset()
    """Pods of earlier attempts of which the operator has seen that their processes have ended."""

    @classmethod
    def of(
        cls,
        *,
        once: bool,
        grace: str,
        listen: str | None,
        termination_log: Path | None,
        service_jobs: bool = False,
        unknown_fields: UnknownFields = UnknownFields.REFUSE,
        ended_drivers: str = "",
    ) -> Self:
        """From text. Raises BadOption."""
        address = None if listen is None else parse_address(listen)
        ended = frozenset(filter(None, ended_drivers.split(",")))
        return cls(once, duration("--grace", grace), address, termination_log, service_jobs, unknown_fields, ended)


def duration(option: str, text: str) -> timedelta:
    """The length of time that an option gives. Raises BadOption."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadOption(f"{option}: {error}") from error


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every address of the machine, IPv4 and IPv6). Raises BadOption. Pure."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in bare and bare == host):
        raise BadOption(f"--listen: {text!r} is not an address such as :9808, 127.0.0.1:0 or [::1]:9808")
    return Address(bare, int(port))


def load_known(file: Path, unknown_fields: UnknownFields) -> BucketIngest:
    """The resource of a file, with a warning about fields that this version does not know, if they are to be ignored.
    Raises SpecError.
    """

    def warn(fields: Sequence[str]) -> None:
        log.warning("ignored: this version does not know fields of the spec", extra={"fields": list(fields)})

    return load_file(file, warn if unknown_fields is UnknownFields.IGNORE else None)
