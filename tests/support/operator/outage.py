"""A way to the API server that can fail or be slow: a proxy which answers in its place, and cuts what was answered."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web
from kubernetes.aio import client, config

_BODY = 64 * 2**20
_OURS = "/apis/bucketingest.dev/"


class Outage:
    """Forwards to the API server of a kubeconfig, with its credentials. A context manager.

    Args:
        kubeconfig: Of the API server.
        folder: Where `kubeconfig`, which leads through the proxy, is written.
        host: Address of the proxy.
    """

    def __init__(self, kubeconfig: Path, folder: Path, host: str = "127.0.0.1") -> None:
        self._behind = kubeconfig
        self._host = host
        self.kubeconfig = folder / "through-proxy.kubeconfig"
        self.delay = 0.0
        """Seconds that each call takes longer, but no watch."""
        self._codes: itertools.cycle[int] | None = None
        self._only = ""
        self._open: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)

    def begin(self, *codes: int, only: str = "") -> None:
        """From now on answer with these codes, in turns, to paths that begin so, and cut what is open."""

        def cut() -> None:
            self._codes, self._only = itertools.cycle(codes), only
            for each in self._open:
                each.cancel()

        self._loop.call_soon_threadsafe(cut)

    def definition_is_away(self) -> None:
        """As if the definition of BucketIngest were deleted."""
        self.begin(404, only=_OURS)

    def end(self) -> None:
        """Forward again."""
        self._loop.call_soon_threadsafe(setattr, self, "_codes", None)

    async def _serve(self) -> None:
        settings = client.Configuration()
        await config.load_kube_config(str(self._behind), client_configuration=settings)  # type: ignore[no-untyped-call]
        trusted = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        trusted.load_cert_chain(settings.cert_file or "", settings.key_file)
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted, limit=0))
        app = web.Application(client_max_size=_BODY)
        app.router.add_route("*", "/{path:.*}", self._handler(session, settings.host))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, self._host, 0).start()
        host = f"[{self._host}]" if ":" in self._host else self._host
        server = f"http://{host}:{runner.addresses[0][1]}"
        cluster = {"name": "c", "cluster": {"server": server}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "any"}}
        content = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
        self.kubeconfig.write_text(yaml.safe_dump(content), encoding="utf-8")
        self._ready.set()
        await self._over.wait()
        await runner.cleanup()
        await session.close()

    def _handler(
        self, session: aiohttp.ClientSession, host: str
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self._codes is not None and request.path.startswith(self._only):
                code = next(self._codes)
                return web.json_response({"kind": "Status", "code": code, "message": "an outage"}, status=code)
            if "watch" not in request.query:
                await asyncio.sleep(self.delay)
            task = asyncio.current_task()
            assert task is not None
            self._open.add(task)
            try:
                return await self._forward(session, host, request)
            finally:
                self._open.discard(task)

        return handle

    async def _forward(self, session: aiohttp.ClientSession, host: str, request: web.Request) -> web.StreamResponse:
        kept = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        timeout = aiohttp.ClientTimeout(total=None)
        body = await request.read() or None  # an empty one would be sent as application/octet-stream, and refused
        async with session.request(
            request.method, host + request.raw_path, headers=kept, data=body, timeout=timeout
        ) as answer:
            passed = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
            await passed.prepare(request)
            async for chunk in answer.content.iter_any():
                await passed.write(chunk)
            await passed.write_eof()
            return passed
