"""What the operator answers over HTTP: `/healthz`, `/readyz`, `/metrics`; the webhook listens by the same rule.

Any pod of the cluster may reach it. So connections have a limit, or one that opens many and says nothing would take the
operator's memory.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
_HANDSHAKE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0
_TEXTS_MAX: Final = 2
_PIECE: Final = 64 * 1024
_SENDING_SECONDS: Final = 10.0
"""So long whoever asks for metrics may read them: as long as Prometheus waits."""


def split_address(listen: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{listen!r} is not an address: host:port")
    return host.strip("[]"), int(port)


def serving(
    listen: str, metrics_text: Callable[[], bytes | bytearray], ready: Callable[[], bool], healthy: Callable[[], bool]
) -> AbstractAsyncContextManager[int]:
    """Serve while the context is open; its value is the port, a free one for port 0. `metrics_text` is called in a
    thread. `ready`: whether everything that a decision needs is known; a standby operator is ready too.
    """
    newest: asyncio.Task[bytes | bytearray] | None = None
    wanted: Counter[asyncio.Task[bytes | bytearray]] = Counter()

    async def metrics(request: web.Request) -> web.StreamResponse:
        nonlocal newest
        # One text for all who ask while it is made, or whoever asks often keeps everybody else waiting. And no third
        # one beside two that are still sent, or those who never read them would take the memory.
        if newest is None or (newest.done() and len(wanted) < _TEXTS_MAX):
            # In a thread: a thousand resources have tens of thousands of lines, and passes must continue.
            newest = asyncio.create_task(asyncio.to_thread(metrics_text))
        made = newest
        wanted[made] += 1
        try:
            return await _send(request, await asyncio.shield(made))
        finally:
            wanted[made] -= 1
            if not wanted[made]:
                del wanted[made]
                newest = None if newest is made and made.done() else newest

    def answer(condition: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(_: web.Request) -> web.StreamResponse:
            return web.Response(text="ok\n") if condition() else web.Response(text="not yet\n", status=503)

        return handle

    routes = [web.get("/metrics", metrics), web.get("/healthz", answer(healthy)), web.get("/readyz", answer(ready))]
    return listening(*split_address(listen), routes)


async def _send(request: web.Request, text: bytes | bytearray) -> web.StreamResponse:
    """Send a text in pieces, each after the other side has taken the one before: its copy is not kept for each."""
    answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Content-Length": str(len(text))})
    try:
        async with asyncio.timeout(_SENDING_SECONDS):
            await answer.prepare(request)
            for start in range(0, len(text), _PIECE):
                await answer.write(memoryview(text)[start : start + _PIECE])
            await answer.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # closed in order it would wait with what is not read
    return answer


@asynccontextmanager
async def listening(
    host: str, port: int, routes: Sequence[web.RouteDef], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Answer while the context is open; its value is the port. One connection too many ends the oldest one of the
    address that has the most: who opens many ends its own. Host "": every address of both families, as a pod may have
    only one of the two; port 0: a free one. Raises OSError if the address cannot be used.
    """
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1, handler_cancellation=True)
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX, dualstack_ipv6=both) as bound:
        bound.settimeout(0)
        await runner.setup()
        accepting = asyncio.create_task(_accept(bound, runner, tls))
        try:
            where = {"host": host, "port": bound.getsockname()[1], "paths": [each.path for each in routes]}
            log.info("listening", extra=where)
            yield int(bound.getsockname()[1])
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            await runner.cleanup()


async def _accept(bound: socket.socket, runner: web.AppRunner, tls: ssl.SSLContext | None) -> None:
    """Take connections forever. One counts from its first packet, before TLS has begun, until it is closed."""
    loop, server = asyncio.get_running_loop(), runner.server
    assert server is not None, "set up"
    opened: list[tuple[str, socket.socket]] = []

    async def begin(connection: socket.socket) -> None:
        seconds = None if tls is None else _HANDSHAKE_SECONDS
        with suppress(OSError):  # the other side has gone, or does not speak TLS
            await loop.connect_accepted_socket(server, connection, ssl=tls, ssl_handshake_timeout=seconds)

    async with asyncio.TaskGroup() as beginning:
        while True:
            try:
                connection, (address, *_) = await loop.sock_accept(bound)
            except OSError as error:  # no more files: some connections end
                log.warning("no connection can be taken", extra={"error": str(error)})
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            opened = [each for each in opened if each[1].fileno() != -1]
            if len(opened) >= CONNECTIONS_MAX:
                held = Counter(theirs for theirs, _ in opened)
                oldest = max(opened, key=lambda each: held[each[0]])  # the first one of those with as many
                opened.remove(oldest)
                with suppress(OSError):  # it has just ended by itself
                    oldest[1].shutdown(socket.SHUT_RDWR)
            opened.append((address, connection))
            beginning.create_task(begin(connection))
            await asyncio.sleep(0)  # accepting does not wait while more are there, and everything else would
