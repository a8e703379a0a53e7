"""A schema registry in this process that answers as Confluent's does, and misbehaves when a test wants it to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from support.http_fake import FakeHandler, FakeServer

Misbehaviour = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class HttpRegistry:
    """Subjects with versions; each different schema has an id of its own."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    authorization: str | None = None
    """What it asks for."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths and headers, lower case, of all that was asked."""
    misbehaves: Misbehaviour | None = None
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test ends: what hangs goes on."""

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        number = len(self.schemas) + 1
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[number] = {"schema": text, **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    @property
    def asked(self) -> list[str]:
        return [path for path, _ in self.requests]

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions", version]:
                ids = self.subjects.get(subject)
                if ids is None:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                wanted = len(ids) if version == "latest" else int(version)
                if not 1 <= wanted <= len(ids):
                    return 404, {"error_code": 40402, "message": "Version not found."}
                found_id = ids[wanted - 1]
                return 200, {"subject": subject, "version": wanted, "id": found_id, **self.schemas[found_id]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def http_registry(tls: ssl.SSLContext | None = None) -> Iterator[HttpRegistry]:
    """A registry that runs within the block, with TLS if there is a server's context."""
    registry = HttpRegistry()

    class Handler(FakeHandler):
        def do_GET(self) -> None:
            registry.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            if registry.misbehaves is not None:
                registry.misbehaves(self)
            elif registry.authorization not in (None, self.headers.get("Authorization")):
                respond(self, 401, {"error_code": 401, "message": "Unauthorized"})
            else:
                respond(self, *registry.answer(self.path))

    with FakeServer(Handler, tls=tls) as server:
        registry.url = server.url
        try:
            yield registry
        finally:
            registry.over.set()


def respond(handler: BaseHTTPRequestHandler, status: int, document: Any, **headers: str) -> None:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)
