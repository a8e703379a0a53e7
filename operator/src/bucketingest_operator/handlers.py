"""Kopf's part: it finds the BucketIngests and watches them, and serves the validating webhook.

It writes nothing: we write finalizer and status.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kopf

from bucketingest.spec.model import API_GROUP, API_VERSION
from bucketingest_operator.kube.connection import kopf_connection

Object = dict[str, Any]
Judge = Callable[[Object, Object | None], str | None]
"""Called with a BucketIngest and what is stored of it: why it is refused, or None."""

WEBHOOK_PATH: Final = "validate"
UNPROCESSABLE: Final = 422
"""The code with which the API server refuses what the definition refuses."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """The validating webhook.

    Attributes:
        port: It listens there, on all addresses.
        certificate: Folder of `tls.crt` and `tls.key`. Changed files are read again.
    """

    port: int
    certificate: Path


def kopf_settings(webhook: Webhook | None = None) -> kopf.OperatorSettings:
    """Settings with which Kopf only watches, and serves the webhook if there is one."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Namespaces are listed in the options, and the CRD exists: no right is needed to look for new ones.
    settings.scanning.disabled = True
    settings.watching.connect_timeout = 5
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 60
    settings.networking.connect_timeout = 5
    # After these Kopf ends, and is started again: then it reads everything.
    settings.networking.error_backoffs = (1, 1, 2, 3, 5, 8)
    settings.queueing.idle_timeout = 1
    settings.process.ultimate_exiting_timeout = None
    if webhook is not None:
        files = (webhook.certificate / "tls.crt", webhook.certificate / "tls.key")
        # Without an address: IPv4 and IPv6. Who calls it is in the chart's configuration, which Kopf does not change.
        settings.admission.server = kopf.WebhookServer(port=webhook.port, certfile=files[0], pkeyfile=files[1])
    return settings


def watching_registry(
    event: Callable[[str | None, Object], None], judge: Callable[[Object, Object | None], Awaitable[str | None]] | None
) -> kopf.OperatorRegistry:
    """Handlers of watch events of BucketIngests, and of those that are to be stored.

    For an event handler, Kopf adds no finalizer and keeps no state in annotations.

    Args:
        event: Called with None, ADDED, MODIFIED or DELETED, and the resource.
        judge: As `Judge`; None: there is no webhook.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)  # type: ignore[arg-type, unused-ignore]
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await kopf_connection()

    @kopf.on.event(API_GROUP, API_VERSION, "bucketingests", registry=registry)
    async def watched(event: kopf.RawEvent, **_: Any) -> None:
        handle(event["type"], dict(event["object"]))

    handle = event
    if judge is not None:
        # Its name is the path in the chart's configuration: Kopf lets everything pass at other paths.
        @kopf.on.validate(API_GROUP, API_VERSION, "bucketingests", id=WEBHOOK_PATH, registry=registry)
        async def checked(body: kopf.Body, **more: Any) -> None:
            why = await judge(dict(body), None if more["old"] is None else dict(more["old"]))
            if why is not None:
                raise kopf.AdmissionError(why, code=UNPROCESSABLE)

    return registry


class KopfThread:
    """Runs Kopf in a thread with its own event loop: Kopf treats every task of its loop as its own.

    Args:
        event: Called in the caller's loop, as in `watching_registry`.
        namespaces: Namespaces to watch; empty: the whole cluster.
        webhook: None: there is none.
        judge: Called in the caller's loop for the webhook.
    """

    def __init__(
        self,
        event: Callable[[str | None, Object], None],
        namespaces: Sequence[str],
        webhook: Webhook | None = None,
        judge: Judge = lambda _body, _before: None,
    ) -> None:
        self._webhook = webhook
        self._judge = judge
        self._loop = asyncio.get_running_loop()
        self._event = event
        self._namespaces = namespaces
        self._stop: Callable[[], None] | None = None
        self._watching, self._ended = asyncio.Event(), asyncio.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    async def run(self) -> BaseException | None:
        """Watch until Kopf ends, which it does because of an error: returns that error. Once for each instance."""
        self._thread.start()
        try:
            await self._ended.wait()
        finally:
            await self._watching.wait()
            if self._stop is not None:
                self._stop()
            await self._ended.wait()
        return self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except BaseException as error:  # noqa: BLE001 - `run` returns it
            self._error = error
        finally:
            for event in (self._watching, self._ended):
                self._loop.call_soon_threadsafe(event.set)

    async def _watch(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            # The loop is closed if Kopf has ended in the meantime.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)

        def hand_over(kind: str | None, body: Object) -> None:
            self._loop.call_soon_threadsafe(self._event, kind, body)

        async def judged(body: Object, before: Object | None) -> str | None:
            async def judge() -> str | None:
                return self._judge(body, before)

            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(judge(), self._loop))

        self._stop = end
        self._loop.call_soon_threadsafe(self._watching.set)
        await kopf.operator(
            registry=watching_registry(hand_over, None if self._webhook is None else judged),
            settings=kopf_settings(self._webhook),
            clusterwide=not self._namespaces,
            namespaces=list(self._namespaces),
            standalone=True,
            # A flag of this loop: Kopf would wait for a threading flag in a thread, which nothing can end.
            stop_flag=stop,
        )
