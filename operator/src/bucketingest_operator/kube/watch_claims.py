"""Two releases that watch the same namespace do not both act in it: each claims by a Lease what it watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.kube.api import Api, ApiError, Object
from bucketingest_operator.kube.kinds import LEASES
from bucketingest_operator.kube.leadership import HOLDER_MAX, Clock, Leadership, Times

log = logging.getLogger(__name__)

WATCH_LEASE: Final = "bucketingest-operator-watch"
"""Name of the Lease in each namespace that a release names, and of a release for the whole cluster."""
CLUSTER_NAMESPACE: Final = "kube-system"
"""Where a release that watches the whole cluster has its Lease: every cluster has this namespace."""
CLAIM: Final = Times(lease=30.0, trusted=20.0)
STEP_SECONDS: Final = 5.0
REPORT_SECONDS: Final = 60.0
_AT_ONCE: Final = 16
"""Leases that are renewed at the same time."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A claim of another release, and since when it has this version: by this process's clock, as clocks differ."""

    release: str
    version: str
    since: float


class WatchClaims:
    """Says in which namespaces this release may act.

    All processes of a release have the same claims; only its leader renews them. A namespace is its that named it
    first. A release that watches the whole cluster leaves alone the namespaces that another one names.
    `release`: namespace and name of its leader's Lease. `changed` is called when this release may act in other
    namespaces than before.
    """

    def __init__(
        self,
        api: Api,
        release: str,
        namespaces: Sequence[str],
        changed: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._release = release
        self._changed = changed
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._whole_cluster = not namespaces
        self._claims = {
            namespace: Leadership(api, namespace, release, changed, clock, name=WATCH_LEASE, times=CLAIM)
            for namespace in namespaces or (CLUSTER_NAMESPACE,)
        }
        self._unguarded: set[str] = set()
        self._seen: dict[str, _Seen] = {}
        """Namespace → the claim of another release that names it."""
        self._left: frozenset[str] = frozenset()
        """Namespaces that were left to others at the last look."""
        self._read_until = 0.0
        self._reported = -REPORT_SECONDS

    def may_act(self, namespace: str) -> bool:
        """Whether this release acts in a namespace, now."""
        claim = self._claims[CLUSTER_NAMESPACE if self._whole_cluster else namespace]
        if not (claim.held or claim.forbidden):
            return False
        return not self._whole_cluster or (self._clock.time() < self._read_until and not self._named(namespace))

    @property
    def taken(self) -> int:
        """In how many of its namespaces another release acts; for the whole cluster: 1 if another one has it."""
        return sum(bool(claim.other) for claim in self._claims.values())

    @property
    def useless(self) -> bool:
        """Whether other releases have all that this one watches. One namespace may be taken by whoever can write there,
        and that stops nothing elsewhere.
        """
        return self.taken == len(self._claims)

    @property
    def problem(self) -> str | None:
        """What another release keeps this one from, in words; None if nothing."""
        taken = [(where, claim.other) for where, claim in self._claims.items() if claim.other]
        if not taken:
            return None
        if self._whole_cluster:
            return f"The release {taken[0][1]} watches the whole cluster too: this one does nothing. {_ADVICE}"
        words = ", ".join(f"{where} (release {other})" for where, other in taken[:5])
        return f"Another release watches these namespaces too, in which this one does nothing: {words}. {_ADVICE}"

    async def run(self, leads: Callable[[], bool]) -> None:
        """Keep the claims while this process leads, forever."""
        while True:
            led = leads()
            if led:
                await self.step()
            # As soon as this process leads it needs them.
            await asyncio.sleep(STEP_SECONDS if led else 0.2)

    async def step(self) -> None:
        """Try once to get or keep each claim, and look whom others are."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def renew(namespace: str) -> None:
            async with limit:
                await self._renew(namespace)

        await asyncio.gather(*map(renew, self._claims))
        if self._whole_cluster:
            await self._look_at_others()
        problem, now = self.problem, self._clock.time()
        if problem is not None and now - self._reported >= REPORT_SECONDS:
            self._reported = now
            log.error("another release watches what this one watches", extra={"error": problem})

    async def release(self) -> None:
        """Give the claims up, so that another release has them at once."""
        await asyncio.gather(*(each.release() for each in self._claims.values()))

    async def _renew(self, namespace: str) -> None:
        claim = self._claims[namespace]
        await claim.step()
        if claim.forbidden and namespace not in self._unguarded:
            # Rights of an earlier version. A table still has one writer: its lease decides.
            self._unguarded.add(namespace)
            log.warning(
                "rights on leases are missing: another release that watches the same would not be noticed",
                extra={"namespace": namespace, "lease": WATCH_LEASE},
            )
            self._changed()

    async def _look_at_others(self) -> None:
        asked, before = self._clock.time(), self._left
        seen: dict[str, _Seen] = {}
        try:
            async for page, _ in self._api.pages(LEASES, None, fields=f"metadata.name={WATCH_LEASE}"):
                seen |= {each["metadata"]["namespace"]: self._look_at(each) for each in page if self._is_others(each)}
        except ApiError as error:
            if error.code != HTTPStatus.FORBIDDEN:
                log.warning("the claims of other releases cannot be read", extra={"error": str(error)})
                return
            seen = {}  # as for a claim of its own
        new = self._clock.time() >= self._read_until  # also if it was not yet so when it was asked
        self._read_until = asked + CLAIM.trusted
        self._seen = seen
        self._left = after = frozenset(filter(self._named, self._seen))
        for where in after - before:
            release = self._seen[where].release
            log.info("left to the release that names it", extra={"namespace": where, "release": release})
        if new or after != before:
            self._changed()

    def _is_others(self, lease: Object) -> bool:
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        return holder not in {"", self._release} and lease["metadata"]["namespace"] != CLUSTER_NAMESPACE

    def _look_at(self, lease: Object) -> _Seen:
        before = self._seen.get(lease["metadata"]["namespace"])
        version = str(lease["metadata"]["resourceVersion"])
        if before is not None and before.version == version:
            return before
        return _Seen(plain(str(lease["spec"]["holderIdentity"])[:HOLDER_MAX]), version, self._clock.time())

    def _named(self, namespace: str) -> bool:
        """Whether another release that lives names it."""
        seen = self._seen.get(namespace)
        return seen is not None and self._clock.time() - seen.since <= CLAIM.lease


_ADVICE: Final = "Give each release its own operator.watchNamespaces, or uninstall one."
