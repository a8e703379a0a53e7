"""Who may write a table when several resources name it: one, always the same, whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest_operator.observation import Claim, Resource


def holder_before(resource: Resource, claims: Sequence[Claim]) -> Claim | None:
    """The resource that has the table instead of this one: the oldest, and of equally old ones the lowest UID.

    None: this one has it.
    """
    first = min(claims, key=lambda claim: (claim.created_at, claim.uid), default=None)
    if first is None or (resource.created_at, resource.uid) <= (first.created_at, first.uid):
        return None
    return first


def still_writing(claims: Sequence[Claim]) -> Claim | None:
    """A resource without the right to the table whose driver still runs: it is being stopped, and is waited for."""
    return next((claim for claim in sorted(claims, key=lambda each: each.uid) if claim.has_driver), None)
