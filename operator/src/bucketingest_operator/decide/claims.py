"""Which resource of a namespace may write a table when several name it: one, and the same from each one's view."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from bucketingest_operator.observation import Claim
from bucketingest_operator.resource import Resource


def holder_before(resource: Resource, claims: Sequence[Claim]) -> Claim | None:
    """The resource that has the table instead of this one. None if this one has it.

    One that rests has none: else anyone could keep a table from its writer by a suspended or invalid resource. Of the
    others first comes one that has committed to the table, then one that is at work, so that none is stopped for one
    that is resumed, then the oldest. Kubernetes keeps creation times to the second: of equally old ones it is the one
    that has had an attempt, and else the one with the lowest UID.
    """
    first = min((claim for claim in claims if not claim.rests), key=_order, default=None)
    return None if first is None or _order(resource) <= _order(first) else first


def _order(one: Resource | Claim) -> tuple[bool, bool, datetime, bool, str]:
    return not one.committed, not one.holds, one.created_at, not one.started, one.uid


def _uid(claim: Claim) -> str:
    return claim.uid


def that_decide(claims: Collection[Claim]) -> tuple[Claim, ...]:
    """Those of many that a decision asks about. A namespace may name one table thousands of times: neither what follows
    of a pass nor its line in the log grows with that.
    """
    firsts = (
        min((each for each in claims if not each.rests), key=_order, default=None),
        min((each for each in claims if each.has_driver), key=_uid, default=None),
        min((each for each in claims if each.holds), key=_uid, default=None),
    )
    return tuple({each.uid: each for each in firsts if each is not None}.values())


def still_writing(claims: Sequence[Claim]) -> Claim | None:
    """A resource without the right to the table whose driver still runs: it is being stopped, so wait for it."""
    return min((each for each in claims if each.has_driver), key=_uid, default=None)
