"""Which resource may write a table when several name it: one, and the same from each resource's view."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest_operator.observation import Claim, Resource


def holder_before(resource: Resource, claims: Sequence[Claim]) -> Claim | None:
    """The resource that has the table instead of this one: the oldest. None if this one has it.

    Kubernetes keeps creation times to the second. Of equally old ones it is the one that has had an attempt, so that
    none is stopped for a later one, and else the one with the lowest UID.
    """
    first = min(claims, key=lambda claim: (claim.created_at, not claim.started, claim.uid), default=None)
    mine = (resource.created_at, not resource.started, resource.uid)
    if first is None or mine <= (first.created_at, not first.started, first.uid):
        return None
    return first


def still_writing(claims: Sequence[Claim]) -> Claim | None:
    """A resource without the right to the table whose driver still runs: it is being stopped, so wait for it."""
    return next((claim for claim in sorted(claims, key=lambda each: each.uid) if claim.has_driver), None)
