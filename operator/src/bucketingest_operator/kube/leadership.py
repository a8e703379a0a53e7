"""One operator acts, by a Lease: a leader that cannot renew it in time stops acting before another can start."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Protocol

from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.kube.api import AlreadyExists, Api, ApiError, Conflict, NotFound, Object
from bucketingest_operator.kube.kinds import LEASES

log = logging.getLogger(__name__)

LEASE_NAME: Final = "bucketingest-operator"
LEASE_SECONDS: Final = 15.0
"""How long a lease lasts after its last renewal, by the clock of the process that waits for it."""
TRUSTED_SECONDS: Final = 9.0
"""How long a leader trusts a renewal. Together with the timeout of a call (5 s) it is shorter than the lease."""
RETRY_SECONDS: Final = 2.0
HOLDER_MAX: Final = 200
"""Characters of another holder that are kept and shown: whoever may write a Lease writes any text there."""


@dataclass(frozen=True, slots=True)
class Times:
    """For how long a Lease lasts, and for how long its holder trusts a renewal, in seconds."""

    lease: float = LEASE_SECONDS
    trusted: float = TRUSTED_SECONDS


@dataclass(frozen=True, slots=True)
class Identity:
    """The holder of a Lease: different for each process, also for successive processes in the same pod.

    Attributes:
        host: Name of the pod, or of the machine.
        in_pod: It is a pod's name, so an earlier process of that name is dead: containers start one after the other.
        process: Unique to this process.
    """

    host: str
    in_pod: bool
    process: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def __str__(self) -> str:
        return f"{self.host}_{self.process}"

    @property
    def predecessor(self) -> str | None:
        """Prefix of the identities of earlier processes that are certainly dead."""
        return f"{self.host}_" if self.in_pod else None


def own_identity(environment: Mapping[str, str]) -> Identity:
    """The identity of this process; `POD_NAME` is the name of its pod."""
    pod = environment.get("POD_NAME")
    return Identity(pod or os.uname().nodename, in_pod=bool(pod))


class Clock(Protocol):
    """A monotonic clock, such as an event loop's."""

    def time(self) -> float:
        """Seconds since an arbitrary point."""
        ...


class Leadership:
    """Holds the Lease, or waits for it. `gained` is called each time this process becomes the leader. Operators that
    watch other namespaces have a Lease of another name.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        identity: Identity | str,
        gained: Callable[[], None],
        clock: Clock | None = None,
        *,
        name: str = LEASE_NAME,
        times: Times = Times(),
    ) -> None:
        self._name = name
        self._api = api
        self._namespace = namespace
        self._identity = str(identity)
        self._predecessor = identity.predecessor if isinstance(identity, Identity) else None
        self._times = times
        self.other = ""
        """Identity of another holder, at the last look; "" if there was none."""
        self.forbidden = False
        """Whether this process had no right to the Lease, at the last look."""
        self._gained = gained
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._trusted_until = 0.0
        self._was_leader = False
        self._seen: tuple[str, float] = ("", 0.0)
        """Version of the Lease while another operator holds it, and since when it has this version."""

    @property
    def held(self) -> bool:
        """Whether this process may act, now."""
        return self._clock.time() < self._trusted_until

    async def run(self) -> None:
        """Get the Lease and keep it, forever."""
        while True:
            await self.step()
            await asyncio.sleep(RETRY_SECONDS * random.uniform(0.9, 1.1))  # noqa: S311

    async def step(self) -> None:
        """Try once to get the Lease, or to keep it."""
        asked = self._clock.time()
        try:
            if await self._try():
                # What was due in a gap was dropped: after a gap the leader looks at everything.
                self._was_leader = self._was_leader and self.held
                self._trusted_until = asked + self._times.trusted
            self.forbidden = False
        except ApiError as error:
            if not self.forbidden:
                which = f"{self._namespace}/{self._name}"
                log.warning("the lease cannot be renewed or read", extra={"lease": which, "error": str(error)})
            self.forbidden = error.code == HTTPStatus.FORBIDDEN
        self._report_change()

    async def release(self) -> None:
        """Release the Lease so that another operator gets it immediately. Call it once nothing acts any more."""
        held, self._trusted_until = self.held, 0.0
        if not held:
            return
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
                await self._api.replace(LEASES, self._namespace, self._name, lease)
        except ApiError as error:
            log.warning("the lease was not released; it expires by itself", extra={"error": str(error)})

    async def _try(self) -> bool:
        """Create, renew or take over the Lease. Returns whether this process holds it now."""
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._create()
        spec: dict[str, Any] = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        dead = self._predecessor is not None and holder.startswith(self._predecessor)
        if holder not in {"", self._identity} and not dead and not self._expired(lease):
            self.other = plain(holder[:HOLDER_MAX])
            return False
        self.other = ""
        if holder != self._identity:
            spec["acquireTime"] = _now()
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        duration = int(self._times.lease)
        spec.update(holderIdentity=self._identity, leaseDurationSeconds=duration, renewTime=_now())
        try:
            await self._api.replace(LEASES, self._namespace, self._name, lease)
        except Conflict:
            return False
        return True

    async def _create(self) -> bool:
        lease: Object = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._times.lease),
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": 0,
            },
        }
        try:
            await self._api.create(LEASES, self._namespace, lease)
        except AlreadyExists:
            return False
        return True

    def _expired(self, lease: Object) -> bool:
        """Whether the holder has not renewed it for its duration, by this process's clock: machines' clocks differ."""
        version, now = lease["metadata"]["resourceVersion"], self._clock.time()
        if self._seen[0] != version:
            self._seen = (version, now)
        duration = float(lease["spec"].get("leaseDurationSeconds") or self._times.lease)
        return now - self._seen[1] > duration

    def _report_change(self) -> None:
        if self.held == self._was_leader:
            return
        self._was_leader = self.held
        which = {"lease": f"{self._namespace}/{self._name}", "identity": self._identity}
        if self._was_leader:
            log.info("got the lease", extra=which)
            self._gained()
        else:
            log.warning("lost the lease", extra=which)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
