"""Asks a driver pod for its job's progress, with a short timeout and a size limit, and remembers the last answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

import aiohttp
from pydantic import ValidationError

from bucketingest.spec.job_report import ProgressReport
from bucketingest_operator.manifests.pod_specs import HTTP_PORT
from bucketingest_operator.observation import ENDED, Contact, PodState
from bucketingest_operator.observe.pod_reading import PodSeen

MAX_BYTES: Final = 64 * 1024
SILENT_SECONDS: Final = 60.0
SILENT_REST_SECONDS: Final = 30.0
"""A driver that has not answered for `SILENT_SECONDS` is asked less often: it may never answer, and each time costs."""
_CACHED_SECONDS: Final = 1.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=2, sock_connect=1)


@dataclass(slots=True)
class Talk:
    """The answers of one driver pod.

    Attributes:
        pod: UID of the pod.
        report: Its last answer.
        read_at: When it came, by the loop's clock.
        silent_since: Since when it has not answered, by the loop's clock, which is monotonic.
        asked_at: When it was last asked, by the loop's clock; None: never, or it does not run yet.
        executors_refused: Why the API server refuses its executors, in its words; "" if it does not.
        probed_at: When that was asked, by the loop's clock.
        secret_gone: Whether the Secret of Spark's ports no longer exists.
        secret_probed_at: When that was asked, by the loop's clock.
    """

    pod: str
    report: ProgressReport | None = None
    read_at: float = 0
    silent_since: float | None = None
    asked_at: float | None = None
    executors_refused: str = ""
    probed_at: float | None = None
    secret_gone: bool = False
    secret_probed_at: float | None = None

    @property
    def rest(self) -> float:
        """Seconds for which it is not asked again."""
        long = self.silent_since is not None and (self.asked_at or 0) - self.silent_since >= SILENT_SECONDS
        return SILENT_REST_SECONDS if long else 0

    def contact(self, now: datetime) -> Contact:
        """For an observation. A silence counts up to the last question: nobody knows whether it goes on."""
        clock = asyncio.get_running_loop().time()
        if self.silent_since is not None:
            return Contact(self.report, now - timedelta(seconds=(self.asked_at or clock) - self.silent_since))
        old = clock - self.read_at
        cached = self.report is not None and old >= _CACHED_SECONDS
        return Contact(self.report, read_at=now - timedelta(seconds=old) if cached else None)


class ProgressClient:
    """Reads `/progress` of driver pods. Use it as an asynchronous context manager."""

    def __init__(self, port: int = HTTP_PORT) -> None:
        self._port = port
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A new connection for each request: drivers come and go, and another pod may have the address the next time.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, force_close=True), cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, pod: PodSeen | None, resource_name: str, before: Talk | None) -> Talk | None:
        """Ask the driver, the newest attempt's, if one runs. An answer with another name comes from another pod that
        has the address now.
        """
        talk = talk_with(pod, before)
        if pod is None or talk is None or pod.state is not PodState.RUNNING:
            return talk
        now = asyncio.get_running_loop().time()
        report = await self._read(pod.ip)
        talk.asked_at = asyncio.get_running_loop().time()
        if report is not None and (report.name, report.namespace or pod.namespace) == (resource_name, pod.namespace):
            talk.report, talk.read_at, talk.silent_since = report, talk.asked_at, None
        elif talk.silent_since is None:
            talk.silent_since = now
        return talk

    async def _read(self, ip: str | None) -> ProgressReport | None:
        """The report; None if there is no answer in time, or one that cannot be read."""
        assert self._session is not None, "use the client within `async with`"
        if ip is None:
            return None
        url = f"http://{f'[{ip}]' if ':' in ip else ip}:{self._port}/progress"
        try:
            async with self._session.get(url, timeout=_TIMEOUT, allow_redirects=False) as answer:
                if answer.status != 200:
                    return None
                data = b""
                async for chunk in answer.content.iter_any():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        return None
                return ProgressReport.model_validate_json(data)
        except (aiohttp.ClientError, TimeoutError, OSError, ValidationError):
            return None


def talk_with(pod: PodSeen | None, before: Talk | None) -> Talk | None:
    """The talk with a driver pod. Of one that has ended no answer is kept: what it said is no longer so."""
    if pod is None or pod.state in ENDED:
        return None
    return before if before is not None and before.pod == pod.uid else Talk(pod.uid)
