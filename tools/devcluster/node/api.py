"""A few requests to an API server, before there is any client: is it ready, is this there."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devcluster.errors import ClusterError


class Api:
    """Asks one API server as an administrator."""

    def __init__(self, node_ip: str, certificates: Path) -> None:
        self._base = f"https://{node_ip}:6443"
        self._context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        self._context.load_cert_chain(certificates / "admin.crt", certificates / "admin.key")

    def get(self, path: str) -> Any:
        """The answer, parsed if it is JSON; None if there is none, or another than 200."""
        try:
            with urllib.request.urlopen(self._base + path, timeout=5, context=self._context) as response:
                text = response.read().decode()
        except (urllib.error.URLError, OSError):
            return None
        return json.loads(text) if text.startswith("{") else text

    def node_is_ready(self, name: str) -> bool:
        """Whether the node takes pods."""
        node = self.get(f"/api/v1/nodes/{name}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def wait_until(
    what: str, true: Callable[[], object], *, alive: Callable[[], object], seconds: float, logs: Path
) -> None:
    """Ask until the answer is yes.

    Raises:
        ClusterError: the node has ended, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if not alive():
            raise ClusterError(f"the node ended before {what}; its logs are in {logs}")
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:g} s; logs are in {logs}")
        time.sleep(0.1)
