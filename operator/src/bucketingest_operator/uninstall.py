"""Whether the operator may be uninstalled: a BucketIngest that has its finalizer could no longer be deleted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from bucketingest_operator.kube.api import Api, NotFound
from bucketingest_operator.kube.kinds import BUCKET_INGESTS
from bucketingest_operator.resource import FINALIZER

log = logging.getLogger(__name__)

_NAMED_MAX: Final = 10


async def needed_by(namespaces: Sequence[str]) -> list[str]:
    """The BucketIngests that need an operator for their deletion, as NAMESPACE/NAME; without a definition none.

    Args:
        namespaces: Where to look; empty: in the whole cluster.

    Raises:
        ApiError: The API server does not answer, or forbids it.
    """
    found = []
    async with Api() as api:
        for namespace in namespaces or (None,):
            try:
                async for page, _ in api.pages(BUCKET_INGESTS, namespace):
                    metadata = [each["metadata"] for each in page]
                    needing = [each for each in metadata if FINALIZER in (each.get("finalizers") or ())]
                    found += [f"{each['namespace']}/{each['name']}" for each in needing]
            except NotFound:
                continue
    return found


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
