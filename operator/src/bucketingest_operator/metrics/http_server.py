"""`/healthz`, `/readyz` and `/metrics` of the operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

log = logging.getLogger(__name__)


def split_address(listen: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{listen!r} is not an address: host:port")
    return host.strip("[]"), int(port)


@asynccontextmanager
async def serving(
    listen: str, metrics_text: Callable[[], bytes], ready: Callable[[], bool], healthy: Callable[[], bool]
) -> AsyncIterator[int]:
    """Serve while the context is open; its value is the port.

    Args:
        listen: Address; port 0 takes a free one.
        metrics_text: What `/metrics` shows; called in a thread.
        ready: Whether everything that a decision needs is known. A standby operator is ready too.
        healthy: Whether the event loop responds.
    """
    answers = asyncio.Lock()

    async def metrics(_: web.Request) -> web.Response:
        async with answers:
            # In a thread: a thousand resources have tens of thousands of lines, and passes must continue.
            text = await asyncio.to_thread(metrics_text)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    def answer(condition: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(_: web.Request) -> web.StreamResponse:
            return web.Response(text="ok\n") if condition() else web.Response(text="not yet\n", status=503)

        return handle

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", answer(healthy))
    app.router.add_get("/readyz", answer(ready))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1)
    await runner.setup()
    try:
        host, port = split_address(listen)
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        bound = runner.addresses[0][1]
        log.info("listening", extra={"host": host, "port": bound})
        yield bound
    finally:
        await runner.cleanup()
