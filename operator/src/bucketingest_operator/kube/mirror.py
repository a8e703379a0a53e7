"""A copy of the objects of one kind, updated by one list and one watch, so that a pass needs no API calls."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from bucketingest_operator.kube.api import Api, ApiError, Gone, Object
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.manifests.attempt_objects import UID_LABEL

log = logging.getLogger(__name__)

T = TypeVar("T")

WATCH_SECONDS: Final = 300.0
RELIST_SECONDS: Final = 1800.0
"""How often everything is read again, in case the watch missed a change: a copy must not stay wrong forever."""
_BACKOFF_CAP: Final = 30.0


class Mirror(Generic[T]):
    """The objects that carry the operator's labels, in the form that `keep` makes, by the UID of their BucketIngest, of
    a namespace or (None) of the whole cluster. The server applies the label selector.

    `turn` is held while everything is read: one mirror at a time, as pages of a tenant's objects can be large.
    `changed` is called with the UID of a BucketIngest and the old and new value, after one of its objects changed.
    """

    def __init__(
        self,
        api: Api,
        kind: Kind,
        namespace: str | None,
        labels: str,
        turn: asyncio.Lock,
        *,
        keep: Callable[[Object], T | None],
        changed: Callable[[str, T | None, T | None], None],
    ) -> None:
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._turn = turn
        self._keep = keep
        self._changed = changed
        self._kept: dict[str, dict[str, T]] = defaultdict(dict)
        self._owners: dict[str, str] = {}
        self.synced = asyncio.Event()
        """Set once everything was read."""

    def of(self, owner: str) -> tuple[T, ...]:
        """The objects of a BucketIngest, by its UID."""
        return tuple(self._kept[owner].values()) if owner in self._kept else ()

    async def run(self) -> None:
        """Keep the copy up to date, forever."""
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except Gone:
                log.debug("the watch is too old and starts again", extra={"kind": self._kind.plural})
            except ApiError as error:
                failures += 1
                log.warning("cannot watch", extra={"kind": self._kind.plural, "error": str(error)})
                await asyncio.sleep(min(_BACKOFF_CAP, 2**failures * 0.25) * random.uniform(0.8, 1.2))  # noqa: S311

    async def _follow(self) -> None:
        """Read all, then watch changes until it is time to read all again."""
        version = await self._read_all()
        self.synced.set()
        clock = asyncio.get_running_loop()
        end = clock.time() + RELIST_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
        while clock.time() < end:
            started = clock.time()
            async for kind, each in self._api.watch(
                self._kind, self._namespace, self._labels, since=version, seconds=WATCH_SECONDS
            ):
                version = each["metadata"]["resourceVersion"]
                if kind == "DELETED":
                    self._forget(each["metadata"]["uid"])
                elif kind != "BOOKMARK":
                    self._take(each)
            if clock.time() - started < 1:
                await asyncio.sleep(1)  # do not loop without a pause if a server ends every watch immediately

    async def _read_all(self) -> str:
        """Read all objects, each page as it comes, and return their version."""
        there, version = set(), ""
        async with self._turn:
            async for page, newest in self._api.pages(self._kind, self._namespace, self._labels):
                version = newest
                for each in page:
                    there.add(each["metadata"]["uid"])
                    self._take(each)
        for uid in self._owners.keys() - there:
            self._forget(uid)
        return version

    def _take(self, each: Object) -> None:
        uid = each["metadata"]["uid"]
        owner = (each["metadata"].get("labels") or {}).get(UID_LABEL)
        kept = None if owner is None else self._keep(each)
        if owner is None or kept is None or self._owners.get(uid, owner) != owner:
            self._forget(uid)
        if owner is None or kept is None:
            return
        before = self._kept[owner].get(uid)
        self._kept[owner][uid] = kept
        self._owners[uid] = owner
        if before != kept:
            self._changed(owner, before, kept)

    def _forget(self, uid: str) -> None:
        owner = self._owners.pop(uid, None)
        if owner is None:
            return
        before = self._kept[owner].pop(uid)
        if not self._kept[owner]:
            del self._kept[owner]
        self._changed(owner, before, None)
