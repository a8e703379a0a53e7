"""Serves the validating webhook: the API server asks, a judge answers.

Not by Kopf: a certificate that it cannot read would end its watch, it remembers each object that is posted, and whoever
reaches the port can post any number of them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from bucketingest_operator.guards.http_server import listening

log = logging.getLogger(__name__)

Object = dict[str, Any]
Judge = Callable[[Object, Object | None], str | None]
"""Called with a BucketIngest and what is stored of it: why it is refused, or None."""

PATH: Final = "/validate"
UNPROCESSABLE: Final = 422
"""The code with which the API server refuses what the definition refuses."""
LOOK_SECONDS: Final = 10.0
"""How often the certificate is read, and what failed is tried again."""
_AT_ONCE: Final = 32
"""Questions that are read at the same time, of at most 1 MiB each. The API server takes what is not answered."""
_READ_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Webhook:
    """The validating webhook.

    Attributes:
        port: It listens there, on all addresses; 0: a free one.
        certificate: Folder of `tls.crt` and `tls.key`.
    """

    port: int
    certificate: Path


async def serve(webhook: Webhook, judge: Judge, look_seconds: float = LOOK_SECONDS) -> None:
    """Serve forever, with the newest certificate that can be used; without one nothing listens. Nothing ends it."""
    used: bytes | None = None
    said = ""
    async with AsyncExitStack() as site:
        while True:
            try:
                if (found := _read(webhook.certificate)) != used:
                    context = _context(webhook.certificate)
                    await site.aclose()
                    used = None
                    routes = [web.post(PATH, _answering(judge))]
                    await site.enter_async_context(listening("", webhook.port, routes, context))
                    used, said = found, ""
            except OSError as error:  # of TLS, too
                if str(error) != said:
                    said = str(error)
                    extra = {"folder": str(webhook.certificate), "port": webhook.port, "error": said}
                    log.warning("the webhook cannot use its certificate or its port, and tries again", extra=extra)
            await asyncio.sleep(look_seconds)


def _read(folder: Path) -> bytes:
    return b"".join((folder / name).read_bytes() for name in ("tls.crt", "tls.key"))


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # With a password, as OpenSSL would ask a terminal for that of a key that has one.
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key", password="")
    return context


def _answering(judge: Judge) -> Callable[[web.Request], Awaitable[web.Response]]:
    free = _AT_ONCE

    async def answer(request: web.Request) -> web.Response:
        nonlocal free
        if not free:
            raise web.HTTPServiceUnavailable
        free -= 1
        try:
            async with asyncio.timeout(_READ_SECONDS):
                review = await request.json()
            asked = review["request"]
            why = judge(asked["object"], asked.get("oldObject"))
            verdict = {"uid": asked["uid"], "allowed": why is None}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, TimeoutError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {type(error).__name__}\n") from error
        finally:
            free += 1
        if why is not None:
            verdict["status"] = {"message": why, "code": UNPROCESSABLE}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict})

    return answer
