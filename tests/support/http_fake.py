"""What all fakes that answer over HTTP share: a server in a thread of its own, and a handler that does not log."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class FakeHandler(BaseHTTPRequestHandler):
    """Base of handlers."""

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        """Send an answer; `_` in the name of a header stands for `-`."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The base class writes a line to stderr."""


class FakeServer:
    """Serves within its block; it takes its address before. A context manager."""

    def __init__(
        self,
        handler: type[BaseHTTPRequestHandler],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`port` 0: a free one."""
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.port = self._server.server_port
        self.url = f"{'http' if tls is None else 'https'}://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
