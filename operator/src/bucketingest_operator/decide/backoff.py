"""When the next attempt may start: quadratic backoff with jitter that a restart of the operator does not change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from bucketingest.spec.fields.runtime import Restart
from bucketingest.spec.status import Attempt
from bucketingest_operator.decide.failures import TREATMENTS, Answer, Failure, failure_of

BASE: Final = timedelta(seconds=10)
CAP: Final = timedelta(minutes=5)
STABLE_AFTER: Final = timedelta(minutes=10)
"""An attempt that ran so long was healthy: failures before it no longer make the wait longer."""
STABLE_BEFORE_STUCK: Final = timedelta(hours=1)
"""A driver runs for minutes before it counts as stuck, also if it never made a commit."""
DENIED_LONG: Final = timedelta(minutes=40)
"""Denials over this time probably need a person. The ten attempts that a status keeps cover it at the longest delay."""
DENIED_AGAIN: Final = timedelta(minutes=10)
"""After such a stall one attempt is made so often: whoever gives credentials may have been away."""
WAITING_ANSWERS: Final = frozenset({Answer.WAIT, Answer.WAIT_THEN_STALL})
"""These do not count for the circuit breaker."""
JITTER: Final = 0.2
"""Largest fraction that is added to a delay, so that pipelines that failed together do not start together."""


def delay(uid: str, attempt: int, failures: int) -> timedelta:
    """Time to wait after an attempt. The resource's UID and the number of the attempt determine the jitter. `failures`:
    how many attempts in a row have failed; 0: no wait.
    """
    if failures <= 0:
        return timedelta(0)
    plain = min(BASE * failures**2, CAP)
    return plain * (1 + JITTER * _fraction(uid, attempt))


def _fraction(uid: str, attempt: int) -> float:
    digest = hashlib.sha256(f"{uid}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def wait_after(uid: str, attempts: Sequence[Attempt]) -> timedelta:
    """Time from the end of the newest attempt to the start of the next.

    Attempts that ended as planned (a changed spec, a suspension) do not count; after one of those there is no wait.
    """
    if not attempts:
        return timedelta(0)
    last = attempts[-1]
    failure = failure_of(last.outcome)
    if failure is None:
        return timedelta(0)
    in_row = failures_in_row(attempts)
    if TREATMENTS[failure].answer is Answer.AT_ONCE:
        in_row -= 1
    return delay(uid, last.number, in_row)


def failures_in_row(attempts: Sequence[Attempt]) -> int:
    """Failed attempts since the last one that ran stably."""
    count = 0
    for attempt in reversed(attempts):
        failure = failure_of(attempt.outcome)
        if failure is not None:
            # The failure of a stable run is the first of a new series.
            count += 1
        if ran_for(attempt) >= (STABLE_BEFORE_STUCK if failure is Failure.STUCK else STABLE_AFTER):
            break
    return count


def ran_for(attempt: Attempt) -> timedelta:
    """How long an attempt that has ended ran; zero if it never started."""
    if attempt.started_at is None or attempt.ended_at is None:
        return timedelta(0)
    return max(attempt.ended_at - attempt.started_at, timedelta(0))


def counted_failures(
    before: Sequence[datetime], attempts: Sequence[Attempt], since: datetime | None, now: datetime, restart: Restart
) -> tuple[datetime, ...]:
    """Ends of the failed attempts that count for the circuit breaker, oldest first, no more than its limit. `before`:
    those in the newest attempt's input, as the status keeps only the newest attempts. Attempts that ended before
    `since` do not count: a person has ended the stall that they caused.
    """
    ends = set(before)
    for attempt in attempts:
        failure = failure_of(attempt.outcome)
        if failure is not None and attempt.ended_at is not None and TREATMENTS[failure].answer not in WAITING_ANSWERS:
            ends.add(attempt.ended_at.replace(microsecond=0))
    earliest = now - restart.window
    return tuple(sorted(end for end in ends if end >= earliest and (since is None or end > since)))[
        -restart.max_failures :
    ]


def lasts_too_long(attempts: Sequence[Attempt], since: datetime | None) -> bool:
    """Whether all attempts over `DENIED_LONG`, up to the newest, failed as the newest did. Those that ended before
    `since` do not count: a person has ended the stall that they caused.
    """
    ends: list[datetime] = []
    for attempt in reversed(attempts):
        earlier = attempt.ended_at is None or (since is not None and attempt.ended_at <= since)
        if earlier or attempt.outcome != attempts[-1].outcome or attempt.ended_at is None:
            break
        ends.append(attempt.ended_at)
    return bool(ends) and ends[0] - ends[-1] >= DENIED_LONG
