"""Whether the operator may be uninstalled: a BucketIngest that has its finalizer could no longer be deleted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from bucketingest_operator.kube.api import Api, ApiError, NotFound, Object
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, LEASES
from bucketingest_operator.kube.watch_claims import CLAIM, CLUSTER_NAMESPACE, WATCH_LEASE
from bucketingest_operator.observe.pod_reading import read_time
from bucketingest_operator.resource import FINALIZER

log = logging.getLogger(__name__)

_NAMED_MAX: Final = 10
_LIVES_SECONDS: Final = 2 * CLAIM.lease
"""A claim that was renewed since counts: twice as long as to a release, as clocks differ."""


async def needed_by(namespaces: Sequence[str]) -> list[str]:
    """The BucketIngests that need an operator for their deletion, as NAMESPACE/NAME; without a definition none.

    Args:
        namespaces: Where to look; empty: in the whole cluster, but not where another release names the namespace.

    Raises:
        ApiError: The API server does not answer, or forbids it.
    """
    found = []
    async with Api() as api:
        others = set[str]() if namespaces else await _left_to_others(api)
        for namespace in namespaces or (None,):
            try:
                async for page, _ in api.pages(BUCKET_INGESTS, namespace):
                    metadata = [each["metadata"] for each in page if each["metadata"]["namespace"] not in others]
                    needing = [each for each in metadata if FINALIZER in (each.get("finalizers") or ())]
                    found += [f"{each['namespace']}/{each['name']}" for each in needing]
            except NotFound:
                continue
    return found


async def _left_to_others(api: Api) -> set[str]:
    """Namespaces that another release names: its operator deletes what is there."""
    found = set[str]()
    try:
        async for page, _ in api.pages(LEASES, None, fields=f"metadata.name={WATCH_LEASE}"):
            found |= {each["metadata"]["namespace"] for each in page if _lives(each.get("spec") or {})}
    except ApiError as error:
        if error.code != HTTPStatus.FORBIDDEN:
            raise
        return set()
    return found - {CLUSTER_NAMESPACE}


def _lives(claim: Object) -> bool:
    if not claim.get("holderIdentity") or not claim.get("renewTime"):
        return False
    try:
        renewed = read_time(claim["renewTime"])
    except (ValueError, OverflowError):  # the API server takes the year 0
        return False
    return (datetime.now(UTC) - renewed).total_seconds() < _LIVES_SECONDS


async def may_uninstall(namespaces: Sequence[str]) -> bool:
    """Whether nothing needs the operator. The log says what does. Raises ApiError."""
    found = await needed_by(namespaces)
    if found:
        log.error(
            "the operator is not uninstalled: delete these BucketIngests first. Only an operator stops their drivers "
            "and removes their finalizer. To leave them to another release: helm uninstall --no-hooks",
            extra={"bucketingests": sorted(found)[:_NAMED_MAX], "count": len(found)},
        )
    return not found
