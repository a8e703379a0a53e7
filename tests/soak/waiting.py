"""Waiting for conditions, each with a limit: a soak that hangs has found something, and must say what."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


class SoakFailed(Exception):
    """What must not happen has happened: the message has the evidence."""


def reached(condition: Callable[[], bool], *, within: float, poll: float = POLL_SECONDS) -> bool:
    """Ask until it is so; False after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True


def until(condition: Callable[[], bool], what: str, *, within: float, poll: float = POLL_SECONDS) -> None:
    """Ask until it is so. Raises SoakFailed after `within` seconds."""
    if not reached(condition, within=within, poll=poll):
        raise SoakFailed(f"not within {within:g} s: {what}")
