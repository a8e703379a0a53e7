"""A copy reads pages of large objects one by one, and one copy at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from typing import Any, cast

from bucketingest_operator.kube.api import Api
from bucketingest_operator.kube.kinds import JOBS, PODS
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.manifests.attempt_objects import UID_LABEL


class _Large(dict[str, Any]):
    """An object of an API server of which one can ask whether it still exists."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Pages:
    """An API server that notes how many objects of its pages are in use, and how many lists are open."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[_Large] = weakref.WeakSet()
        self.alive_max = 0
        self.open = 0
        self.open_max = 0
        self.watched = asyncio.Semaphore(0)

    async def pages(self, *_: object) -> AsyncIterator[tuple[list[_Large], str]]:
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        for number in range(5):
            await asyncio.sleep(0)
            yield [self._made(number)], "7"
        self.open -= 1

    def _made(self, number: int) -> _Large:
        made = _Large(metadata={"uid": f"o{number}", "labels": {UID_LABEL: f"u{number}"}})
        self.alive.add(made)
        self.alive_max = max(self.alive_max, len(self.alive))
        return made

    async def watch(self, *_: object, **__: object) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.watched.release()
        await asyncio.Event().wait()
        yield "", {}


def test_pages_are_reduced_one_by_one_and_mirrors_read_one_after_the_other() -> None:
    async def read() -> None:
        server, turn = _Pages(), asyncio.Lock()
        mirrors = [
            Mirror[str](
                cast(Api, server),
                kind,
                None,
                "",
                turn,
                keep=lambda each: str(each["metadata"]["uid"]),
                changed=lambda _owner, _before, _after: None,
            )
            for kind in (PODS, JOBS)
        ]
        running = [asyncio.create_task(each.run()) for each in mirrors]
        async with asyncio.timeout(10):
            for _ in running:
                await server.watched.acquire()
        for each in running:
            each.cancel()
        assert [each.of("u4") for each in mirrors] == [("o4",), ("o4",)]
        assert server.open_max == 1
        assert server.alive_max <= 2, "objects of earlier pages are still there"

    asyncio.run(read())
