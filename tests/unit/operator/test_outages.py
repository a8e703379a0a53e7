"""What an outage of the API server, or a definition that is away for a while, ends: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from bucketingest_operator import wiring
from bucketingest_operator.handlers import KopfThread
from bucketingest_operator.kube.api import Api, ApiError, NotFound
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.wiring import Operator, Options
from support.operator.observations import UID, bucket_ingest

OPTIONS = Options((), "127.0.0.1:0", "operators", "lease", JobSettings(), 10)


class _Away:
    """An API server whose definition of BucketIngest is away, then its answers, then there again."""

    def __init__(self) -> None:
        self.answers: list[Exception | None] = [
            None,
            NotFound("no such kind", code=404),
            ApiError("unavailable", code=503),
            None,
        ]

    async def pages(self, *_: object) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        made = {"metadata": {"uid": UID, "name": "orders", "namespace": "ingest", "resourceVersion": "1"}}
        made["metadata"]["creationTimestamp"] = "2026-11-21T11:00:00Z"
        yield [{**made, "spec": bucket_ingest().spec.to_document()}], "1"


def test_a_watch_that_has_ended_starts_again_once_the_definition_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    watches: list[int] = []
    again = asyncio.Event()
    api = _Away()

    class Ending:
        def __init__(self, *_: object) -> None: ...

        async def run(self) -> Exception | None:
            watches.append(len(api.answers))
            if len(watches) == 1:
                return ApiError("escalating", code=500)
            again.set()
            await asyncio.Event().wait()
            return None

    async def no_wait(_seconds: float) -> None:
        return

    async def watched() -> None:
        operator = Operator(OPTIONS)
        await operator._read_all(cast(Api, api))
        operator._listed.set()
        watching = asyncio.create_task(operator._watch(cast(Api, api)))
        done, _ = await asyncio.wait([watching, asyncio.create_task(again.wait())], return_when="FIRST_COMPLETED")
        assert watching not in done
        assert operator._inventory.get(UID) is not None
        watching.cancel()

    monkeypatch.setattr(wiring, "KopfThread", Ending)
    monkeypatch.setattr("asyncio.sleep", no_wait)
    asyncio.run(watched())
    assert watches == [3, 0], "it started again only after the definition was listed"


def test_an_operator_that_may_not_watch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Denied(Exception):
        status = 403

    class Ending:
        def __init__(self, *_: object) -> None: ...

        async def run(self) -> Exception | None:
            return Denied()

    async def watched() -> None:
        operator = Operator(OPTIONS)
        operator._listed.set()
        await operator._watch(cast(Api, _Away()))

    monkeypatch.setattr(wiring, "KopfThread", Ending)
    with pytest.raises(Denied):
        asyncio.run(watched())


@pytest.mark.parametrize("ends", [True, False])
def test_the_thread_of_kopf_says_why_it_ended_and_ends_when_it_is_no_longer_wanted(
    monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    seen: list[str] = []

    async def operator(*, stop_flag: asyncio.Event, **_: object) -> None:
        if ends:
            raise ConnectionError("escalating")
        loops[0].call_soon_threadsafe(begun.set)
        await stop_flag.wait()
        seen.append("stopped")

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        watching = asyncio.create_task(KopfThread(lambda _kind, _body: None, ()).run())
        if ends:
            assert isinstance(await watching, ConnectionError)
            return
        await begun.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert seen == ["stopped"]

    loops: list[asyncio.AbstractEventLoop] = []
    begun = asyncio.Event()
    monkeypatch.setattr("bucketingest_operator.handlers.kopf.operator", operator)
    asyncio.run(run())
