"""Creates objects so that a repetition has no effect, and tells a refusal of the content from a failed call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bucketingest_operator.kube.api import AlreadyExists, ApiError, Object
from bucketingest_operator.kube.kinds import BY_NAME
from bucketingest_operator.kube.leaders_api import LeadersApi

_APPLIED: Final = frozenset({"NetworkPolicy", "Role", "RoleBinding", "ServiceAccount"})
"""They outlive an attempt: each start brings them to what settings and this version say."""


class CreationRefused(ApiError):
    """The API server refuses an object because of its content or of the namespace's limits."""


async def create(api: LeadersApi, manifest: Object) -> Object:
    """Create an object, or bring one up to date that outlives an attempt.

    Raises:
        AlreadyExists: It exists, and is not brought up to date.
        CreationRefused: A rule of the cluster refuses it.
        ApiError: It failed.
    """
    kind, metadata = manifest["kind"], manifest["metadata"]
    try:
        if kind in _APPLIED:
            return await api.apply(BY_NAME[kind], metadata["namespace"], metadata["name"], manifest)
        return await api.create(BY_NAME[kind], metadata["namespace"], manifest)
    except AlreadyExists:
        raise
    except ApiError as error:
        if not error.refuses_the_content:
            raise
        sentence = f"The API server refuses the {kind} {metadata['name']}: {error.sentence}"
        raise CreationRefused(str(error), code=error.code, sentence=sentence) from error


async def create_all(api: LeadersApi, manifests: Sequence[Object]) -> None:
    """Create objects in order, as far as they do not exist; those that outlive an attempt are brought up to date.

    Raises:
        CreationRefused: A rule of the cluster refuses an object.
        ApiError: A creation failed; those after it were not tried.
    """
    for each in manifests:
        # An earlier pass made it: names depend on the resource's UID and the attempt.
        with suppress(AlreadyExists):
            await create(api, each)
