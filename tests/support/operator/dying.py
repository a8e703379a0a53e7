"""The operator's command, but it dies by SIGKILL between any two of its writes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

from bucketingest_operator import main as command
from bucketingest_operator.kube.api import Api, NotFound, Object
from bucketingest_operator.kube.kinds import LEASES

_call = Api.call
_written = 0


async def _call_or_die(self: Api, method: str, path: str, **more: Any) -> Object:
    """This process ends after one write that has an effect."""
    global _written  # noqa: PLW0603 - the state of the whole process
    writes = method != "GET" and LEASES.plural not in path
    if writes and _written:
        os.kill(os.getpid(), signal.SIGKILL)
    before = more.get("body") or {}
    if method == "PATCH":  # server-side apply names no version
        with suppress(NotFound):
            before = await _call(self, "GET", path)
    answer = await _call(self, method, path, **more)
    _written += writes and _has_effect(method, before, answer)
    return answer


def _has_effect(method: str, before: Object, answer: Object) -> bool:
    """Whether a write changed anything: the next process repeats a write without an effect."""
    if method == "DELETE":
        return answer.get("items") != []
    versions = [(each.get("metadata") or {}).get("resourceVersion") for each in (before, answer)]
    return versions[0] != versions[1]


def main() -> int:
    """Run the operator until it dies; returns its exit code if it ends before."""
    Api.call = _call_or_die  # type: ignore[method-assign]
    return command.main()
