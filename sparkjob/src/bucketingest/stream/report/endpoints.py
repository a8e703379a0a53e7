"""The job's HTTP endpoints. They read snapshots and never touch the query."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, ClassVar, Final, Self

from bucketingest.stream.errors import AddressUnusable

log = logging.getLogger(__name__)

_CONNECTIONS_MAX: Final = 16
_SOCKET_SECONDS: Final = 10
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answers."""

    body: bytes
    content_type: str = _JSON
    status: HTTPStatus = HTTPStatus.OK

    @classmethod
    def of(cls, document: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """A JSON document."""
        return cls(json.dumps(document, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n", _JSON, status)


Routes = Mapping[str, Callable[[], Answer]]
"""Path → what answers it, immediately and without blocking."""


class Endpoints:
    """A small server with a thread per connection, at most 16 at a time. Use it as a context manager."""

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        """Listen; host "": on every address, port 0: on any that is free. Raises AddressUnusable."""
        handler = type("_RoutedHandler", (_Handler,), {"routes": dict(routes)})
        try:
            self._server = _Server((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AddressUnusable(
                f"cannot listen on {host}:{port}: {reason}; choose another address with --listen HOST:PORT"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        # Every address is those of both families: a pod may have only one of the two.
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Take connections of IPv4 too where an IPv6 socket listens on every address."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse connections while all threads are busy: others must not queue up behind a slow client."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - of the base class
        """A client that disconnects is not an error."""
        log.debug("request failed", extra={"reason": str(sys.exception())})


class _Handler(BaseHTTPRequestHandler):
    routes: ClassVar[Routes] = {}
    timeout = _SOCKET_SECONDS
    server_version = "bucketingest"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        route = self.routes.get(self.path.partition("?")[0])
        try:
            answer = self._not_found() if route is None else route()
        except Exception:
            log.exception("an endpoint failed", extra={"path": self.path})
            answer = Answer.of({"error": "internal error, see the job's log"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def _not_found(self) -> Answer:
        return Answer.of({"error": "not found", "paths": sorted(self.routes)}, HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        log.debug(format, *args)
