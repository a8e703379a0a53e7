"""Kopf's part: it finds the BucketIngests and watches them.

It writes nothing: we write finalizer and status.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import kopf

from bucketingest.spec.model import API_GROUP, API_VERSION
from bucketingest_operator.kube.connection import kopf_connection

Object = dict[str, Any]


def kopf_settings() -> kopf.OperatorSettings:
    """Settings with which Kopf only watches."""
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
    return settings


def watching_registry(event: Callable[[str | None, Object], None]) -> kopf.OperatorRegistry:
    """Handler of watch events of BucketIngests. For an event handler, Kopf adds no finalizer and keeps no state in
    annotations. `event` is called with None, ADDED, MODIFIED or DELETED, and the resource.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)  # type: ignore[arg-type, unused-ignore]
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await kopf_connection()

    @kopf.on.event(API_GROUP, API_VERSION, "bucketingests", registry=registry)
    async def watched(event: kopf.RawEvent, **_: Any) -> None:
        handle(event["type"], dict(event["object"]))

    handle = event
    return registry


class KopfThread:
    """Runs Kopf in a thread with its own event loop: Kopf treats every task of its loop as its own. `event` is called
    in the caller's loop. Without namespaces the whole cluster is watched.
    """

    def __init__(self, event: Callable[[str | None, Object], None], namespaces: Sequence[str]) -> None:
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

        self._stop = end
        self._loop.call_soon_threadsafe(self._watching.set)
        await kopf.operator(
            registry=watching_registry(hand_over),
            settings=kopf_settings(),
            clusterwide=not self._namespaces,
            namespaces=list(self._namespaces),
            standalone=True,
            # A flag of this loop: Kopf would wait for a threading flag in a thread, which nothing can end.
            stop_flag=stop,
        )
