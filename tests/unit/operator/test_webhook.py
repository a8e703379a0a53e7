"""The webhook answers on both families of addresses, whoever asks, and outlasts its certificate."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bucketingest_operator.guards import webhook
from bucketingest_operator.guards.webhook import PATH, Judge, Webhook, serve
from support.operator.certificates import make_certificate

HOST = "127.0.0.1"


def review(name: str) -> dict[str, Any]:
    body = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": name, "namespace": "ingest", "uid": name},
        "spec": {"suspend": True},
    }
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return {**kind, "request": {"uid": "1", "operation": "CREATE", "object": body, "oldObject": None, "dryRun": True}}


def free_port() -> int:
    with socket.create_server(("", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@asynccontextmanager
async def served(port: int, folder: Path, judge: Judge = lambda _body, _before: None) -> AsyncIterator[None]:
    serving = asyncio.create_task(serve(Webhook(port, folder), judge, look_seconds=0.01))
    try:
        async with asyncio.timeout(60):
            yield
        assert not serving.done(), serving.result()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def ask(port: int, authority: bytes, content: Any, host: str = HOST) -> tuple[int, Any]:
    """Code and answer, from the moment that something with this certificate listens."""
    trusted = ssl.create_default_context(cadata=authority.decode())
    where = f"https://[{host}]:{port}{PATH}" if ":" in host else f"https://{host}:{port}{PATH}"
    while True:
        try:
            async with aiohttp.ClientSession() as http, http.post(where, data=content, ssl=trusted) as answer:
                found = await answer.text()
                return answer.status, json.loads(found)["response"] if answer.status == 200 else found
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.01)  # not yet


async def seen(happened: Callable[[], bool]) -> None:
    while True:
        if happened():
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("address", [HOST, "::1"])
def test_it_answers_with_the_sentence_of_the_judge(address: str, tmp_path: Path) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    authority, port = make_certificate(tmp_path, address), free_port()
    judged: list[tuple[dict[str, Any], object]] = []

    def judge(body: dict[str, Any], before: object) -> str | None:
        judged.append((body, before))
        return None if body["metadata"]["name"] == "right" else "spec: is wrong\nspec: twice"

    async def answers() -> list[tuple[int, Any]]:
        async with served(port, tmp_path, judge):
            return [await ask(port, authority, json.dumps(review(name)), address) for name in ("right", "wrong")]
        raise AssertionError

    right, wrong = asyncio.run(answers())
    assert right == (200, {"uid": "1", "allowed": True})
    status = {"message": "spec: is wrong\nspec: twice", "code": 422}
    assert wrong == (200, {"uid": "1", "allowed": False, "status": status})
    assert [(body["spec"], before) for body, before in judged] == [({"suspend": True}, None)] * 2


def test_a_certificate_that_is_missing_broken_or_replaced_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()

    async def story() -> None:
        async with served(port, tmp_path):
            await seen(lambda: "cannot use its certificate" in caplog.text)
            (tmp_path / "tls.crt").write_text("no certificate")
            (tmp_path / "tls.key").write_text("no key")
            await seen(lambda: "PEM" in str([vars(each) for each in caplog.records]))
            first = make_certificate(tmp_path, HOST)
            assert (await ask(port, first, json.dumps(review("a"))))[0] == 200
            (tmp_path / "tls.crt").write_text("half a certificate")
            said = len(caplog.records)
            await seen(lambda: len(caplog.records) > said)
            assert (await ask(port, first, json.dumps(review("a"))))[0] == 200, "the last one that could be used stays"
            second = make_certificate(tmp_path, HOST)
            assert (await ask(port, second, json.dumps(review("a"))))[0] == 200
            assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 3, "each problem once"

    asyncio.run(story())


def test_a_port_that_is_taken_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = make_certificate(tmp_path, HOST)

    async def story() -> None:
        with socket.create_server(("", 0)) as other:
            port = other.getsockname()[1]
            async with served(port, tmp_path):
                await seen(lambda: "or its port" in caplog.text)
                other.close()
                assert (await ask(port, authority, json.dumps(review("a"))))[0] == 200

    asyncio.run(story())


NO_QUESTIONS = ("", "[]", "{}", '{"request": 1}', '{"request": {"object": {}}}', '{"request": {"object": 1}}', "\xff")


@pytest.mark.parametrize("content", [*NO_QUESTIONS, "[" * 100_000])
def test_what_is_no_question_is_refused_and_ends_nothing(content: str, tmp_path: Path) -> None:
    authority, port = make_certificate(tmp_path, HOST), free_port()

    async def story() -> None:
        async with served(port, tmp_path, lambda body, _before: body["metadata"]["name"]):
            code, said = await ask(port, authority, content.encode("latin-1"))
            assert code == 400, said
            assert (await ask(port, authority, json.dumps(review("a"))))[0] == 200

    asyncio.run(story())


def test_more_than_1_mib_is_not_read(tmp_path: Path) -> None:
    authority, port = make_certificate(tmp_path, HOST), free_port()

    async def story() -> None:
        async with served(port, tmp_path):
            code, _ = await ask(port, authority, io.BytesIO(b" " * (1024**2 + 1)))
            assert code == 413

    asyncio.run(story())


def test_questions_that_never_end_keep_others_out_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_AT_ONCE", 1)
    authority, port = make_certificate(tmp_path, HOST), free_port()
    trusted = ssl.create_default_context(cadata=authority.decode())

    async def story() -> None:
        async with served(port, tmp_path):
            assert (await ask(port, authority, json.dumps(review("a"))))[0] == 200
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
            _, writer = await asyncio.open_connection(HOST, port, ssl=trusted)
            writer.write(head.encode())
            await writer.drain()
            while (await ask(port, authority, json.dumps(review("a"))))[0] != 503:
                pass
            writer.close()
            while (await ask(port, authority, json.dumps(review("a"))))[0] != 200:
                pass

    asyncio.run(story())
