"""How a command line ended, and how tests call one."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]
"""Runs a command line, its arguments given one by one."""
