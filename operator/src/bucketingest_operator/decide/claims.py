"""Who may write a table when several resources name it: one, always the same, whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest_operator.observation import Claim, Resource


def holder_before(resource: Resource, claims: Sequence[Claim]) -> Claim | None:
    """The resource that has the table instead of this one: the oldest.

    Kubernetes keeps that to the second. Of equally old ones it is the one that has begun, so that none is stopped for
    one that came after it, and else the one with the lowest UID.

    None: this one has it.
    """
    first = min(claims, key=lambda claim: (claim.created_at, not claim.begun, claim.uid), default=None)
    mine = (resource.created_at, not resource.begun, resource.uid)
    if first is None or mine <= (first.created_at, not first.begun, first.uid):
        return None
    return first


def still_writing(claims: Sequence[Claim]) -> Claim | None:
    """A resource without the right to the table whose driver still runs: it is being stopped, and is waited for."""
    return next((claim for claim in sorted(claims, key=lambda each: each.uid) if claim.has_driver), None)
