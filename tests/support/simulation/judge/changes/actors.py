"""Whose an actor is: the judge forgives other writers what it does not forgive the pipeline."""

from __future__ import annotations


def is_own(actor: str) -> bool:
    """Whether it is one of the pipeline's processes, or was started by one."""
    return actor.startswith("process ")
