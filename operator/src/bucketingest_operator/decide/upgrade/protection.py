"""Whether the driver that runs is worth protecting from a changed spec that has not passed its check."""

from __future__ import annotations

from typing import Final

from bucketingest_operator.decide.failures import Failure, failure_of
from bucketingest_operator.decide.pass_state import CREATION_REFUSED, Pass
from bucketingest_operator.decide.status import READY

_FROM_OUTSIDE: Final = frozenset({Failure.DRIVER_LOST, Failure.STOPPED, Failure.EVICTED})
_UNWELL: Final = frozenset(
    {
        CREATION_REFUSED,
        "CommitsLate",
        *(each.value for each in (Failure.CONFIG, Failure.IMAGE_PULL, Failure.NO_EXECUTORS, Failure.UNSCHEDULABLE)),
    }
)
"""Reasons of Ready of a driver that does not do its work, and does not just start."""


def is_protected(work: Pass, *, is_known: bool) -> bool:
    """Whether the driver does well. During a check it may restart: that alone does not let a wrong spec in."""
    ready = work.draft.condition(READY)
    if ready is None:
        return False
    return ready.status != "False" or (is_known and ready.reason not in _UNWELL)


def is_unwell(work: Pass) -> bool:
    """Whether the last spec that committed does not do its work any more, by its own fault or by what it needs."""
    current, ready = work.draft.current, work.draft.condition(READY)
    if current is not None and current.outcome is not None:
        failure = failure_of(current.outcome)
        return failure is not None and failure not in _FROM_OUTSIDE
    return ready is not None and ready.status == "False" and ready.reason in _UNWELL
