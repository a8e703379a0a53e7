"""The API server for what only a leader may do: each call asks first, since a lease can be lost between two of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from bucketingest.errors import BucketIngestError
from bucketingest_operator.kube.api import AlreadyExists, Api, ApiError, Object
from bucketingest_operator.kube.kinds import BY_NAME, Kind

log = logging.getLogger(__name__)


class NotLeader(BucketIngestError):
    """The lease was lost: another operator carries out the rest."""


class LeadersApi:
    """Calls of `Api` that begin only while this process may act in the namespace. They raise NotLeader otherwise.
    `may_act` is called with the namespace before each call.
    """

    def __init__(self, api: Api, may_act: Callable[[str], bool]) -> None:
        self._api = api
        self._may_act = may_act

    def _in(self, namespace: str) -> Api:
        if not self._may_act(namespace):
            raise NotLeader(f"{namespace}: another operator acts now.")
        return self._api

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """As `Api.get`."""
        return await self._in(namespace).get(kind, namespace, name)

    async def create(self, kind: Kind, namespace: str, content: Object) -> Object:
        """As `Api.create`."""
        return await self._in(namespace).create(kind, namespace, content)

    async def replace(self, kind: Kind, namespace: str, name: str, content: Object, part: str) -> Object:
        """As `Api.replace`."""
        return await self._in(namespace).replace(kind, namespace, name, content, part)

    async def patch(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        """As `Api.patch`."""
        return await self._in(namespace).patch(kind, namespace, name, content)

    async def apply(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        """As `Api.apply`."""
        return await self._in(namespace).apply(kind, namespace, name, content)

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", grace: int | None = None) -> None:
        """As `Api.delete`."""
        await self._in(namespace).delete(kind, namespace, name, uid=uid, grace=grace)

    async def delete_all(self, kind: Kind, namespace: str, labels: str) -> None:
        """As `Api.delete_all`."""
        await self._in(namespace).delete_all(kind, namespace, labels)

    async def list(self, kind: Kind, namespace: str, labels: str) -> tuple[list[Object], str]:
        """As `Api.list`."""
        return await self._in(namespace).list(kind, namespace, labels)


_APPLIED: Final = frozenset({"NetworkPolicy", "Role", "RoleBinding", "ServiceAccount"})
"""They outlive an attempt: each start brings them to what settings and this version say."""


class CreationRefused(ApiError):
    """The API server refuses an object because of its content or of the namespace's limits."""


async def create(api: LeadersApi, manifest: Object) -> Object:
    """Create an object, or bring one up to date that outlives an attempt. Raises AlreadyExists if it is not brought up
    to date, CreationRefused if a rule of the cluster refuses it, ApiError.
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
    Raises CreationRefused if a rule of the cluster refuses an object, ApiError: those after it were not tried.
    """
    for each in manifests:
        # An earlier pass made it: names depend on the resource's UID and the attempt.
        with suppress(AlreadyExists):
            await create(api, each)


async def together(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Results of all. Waits for all of them also if one fails, so that nothing goes on behind the next pass.

    Raises the first CreationRefused, which a person must read, else the first error; others are logged.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    errors = [each for each in results if isinstance(each, BaseException)]
    errors.sort(key=lambda each: not isinstance(each, CreationRefused))
    for each in errors[1:]:
        log.warning("another call of a pass failed too", extra={"error": repr(each)})
    if errors:
        raise errors[0]
    return results
