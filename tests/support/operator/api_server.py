"""Answers reads like an API server: fixed objects and texts by path, with a kubeconfig that points to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from support.http_fake import FakeHandler, FakeServer

TOKEN = "token-of-a-person"


@dataclass
class ApiServer:
    """Prepared answers, and the recorded requests."""

    answers: dict[str, Any] = field(default_factory=dict)
    """Path → a text, an object, or the status code of a refusal. A list is answered in pages of one item."""
    asked: list[tuple[str, dict[str, str], str | None]] = field(default_factory=list)
    """Path, parameters, and the value of the header Authorization."""
    url: str = ""

    def kubeconfig(self, folder: Path, namespace: str | None = None) -> Path:
        """Write a kubeconfig."""
        context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "here", "context": context}],
                    "current-context": "here",
                }
            )
        )
        return path

    def answer(self, path: str, parameters: dict[str, str]) -> tuple[int, bytes]:
        """Status and body. No watch has an event."""
        if "watch" in parameters:
            return 200, b""
        found = self.answers.get(path, 404)
        if isinstance(found, int):
            return found, json.dumps({"kind": "Status", "code": found, "message": f"no {path} for you"}).encode()
        if isinstance(found, str):
            return 200, found.encode()
        if isinstance(found, list):
            place = int(parameters.get("continue", "0"))
            more = {"continue": str(place + 1)} if place + 1 < len(found) else {}
            found = {"metadata": more, "items": found[place : place + 1]}
        return 200, json.dumps(found).encode()


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server on a free port of this machine."""
    served = ApiServer()

    class Handler(FakeHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
            served.asked.append((parts.path, parameters, self.headers.get("Authorization")))
            status, body = served.answer(parts.path, parameters)
            self.answer(status, body, Content_Type="application/json")

    with FakeServer(Handler) as server:
        served.url = server.url
        yield served
