"""A few S3 requests over HTTP whose faults a test chooses: lost answers, ignored conditions, refusals in mid-upload.

A real server does not lose answers on demand; what S3 really does is tested against a real one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclasses.dataclass
class ScriptedS3:
    """The server's state: objects by URL path, and the faults still to happen."""

    endpoint: str = ""
    objects: dict[str, tuple[bytes, dict[str, str]]] = dataclasses.field(default_factory=dict)
    ignores_conditions: bool = False
    lost_answers: int = 0
    """So many PUTs take effect and then close the connection."""
    lost_requests: int = 0
    """So many PUTs close the connection and have no effect."""
    refusals: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    """Status and S3 error code with which the next PUTs are refused."""
    refuses_early: bool = False
    """Answers 412 before it has read the body, then closes the connection, as servers do with large bodies."""
    puts: int = 0
    authorization: str = ""
    """The header of the last read, which names the access key."""
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    state: ClassVar[ScriptedS3]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        state = self.state
        length = int(self.headers.get("content-length", 0))
        with state.lock:
            state.puts += 1
            conditional = self.headers.get("if-none-match") == "*" and not state.ignores_conditions
            taken = conditional and self.path in state.objects
            expected = self.headers.get("if-match")
            if expected is not None and not state.ignores_conditions:
                held = state.objects.get(self.path)
                taken = held is None or _etag(held[0]) != expected
            if taken and state.refuses_early:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                self.wfile.flush()
                # With unread input the kernel resets the connection, as a client in mid-upload sees it.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                self.close_connection = True
                return
            body = self.rfile.read(length)
            if state.refusals:
                status, code = state.refusals.pop(0)
                self._answer(status, f"<Error><Code>{code}</Code><Message>As scripted</Message></Error>".encode())
                return
            if state.lost_requests:
                state.lost_requests -= 1
                self._hang_up()
                return
            if taken:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            metadata = {name: value for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-")}
            state.objects[self.path] = (body, metadata)
            if state.lost_answers:
                state.lost_answers -= 1
                self._hang_up()
                return
        self._answer(200, b"", {"ETag": _etag(body)})

    def do_GET(self) -> None:
        self.state.authorization = self.headers.get("authorization", "")
        found = self.state.objects.get(self.path)
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        body, metadata = found
        headers = {"ETag": _etag(body), "Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT", **metadata}
        self._answer(200, body, headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:  # The bulk delete: everything goes.
        request = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self.state.objects.clear()
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in re.findall("<Key>([^<]*)</Key>", request))
        answer = f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{deleted}</DeleteResult>'
        self._answer(200, answer.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up are part of the script."""


@contextlib.contextmanager
def scripted_s3() -> Iterator[ScriptedS3]:
    """A running server on 127.0.0.1; faults are set on the object it yields."""
    state = ScriptedS3()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
