"""The operator listens on every address, of both families, and whoever opens connections keeps nobody out."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from bucketingest_operator.guards import http_server
from bucketingest_operator.guards.http_server import listening, serving
from support.operator.certificates import make_certificate


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_without_a_host_it_answers_on_every_address(address: str) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")

    async def asked() -> bytes:
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        async with serving(f":{port}", lambda: b"", lambda: True, lambda: True):
            reader, writer = await asyncio.open_connection(address, port)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(asked()).endswith(b"ok\n")


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@pytest.mark.parametrize("with_tls", [False, True])
def test_connections_that_say_nothing_are_few_and_keep_nobody_out(
    with_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)
    here, there = None, None
    if with_tls:
        there = ssl.create_default_context(cadata=make_certificate(tmp_path, "127.0.0.1").decode())
        here = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        here.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def story() -> None:
        async with asyncio.timeout(60), listening("", 0, [web.get("/", hello)], here) as port:
            # They begin no TLS, send no request, or keep their connection.
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            polite = [await asyncio.open_connection("127.0.0.1", port, ssl=there) for _ in range(5)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=there)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            for early, _ in [*silent, *polite[:3]]:
                assert await early.read() == b"", "it is ended by the operator"
            for _, each in [*silent, *polite, (reader, writer)]:
                each.close()

    asyncio.run(story())


def test_who_opens_many_ends_its_own_connections_and_no_older_one_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def story() -> None:
        async with asyncio.timeout(60), listening("", 0, [web.get("/", hello)]) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            many = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(8)]
            for early, _ in many[:6]:
                assert await early.read() == b""
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            for _, each in [*many, (reader, writer)]:
                each.close()

    asyncio.run(story())


def test_whoever_asks_for_metrics_often_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose connection was ended ask for nothing any more."""
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)
    goes_on, asked = threading.Event(), []

    def text() -> bytes:
        asked.append(1)
        goes_on.wait(60)
        return b"x 1\n"

    async def story() -> None:
        async with asyncio.timeout(60), serving("127.0.0.1:0", text, lambda: True, lambda: True) as port:
            before, every = asyncio.all_tasks(), []
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
                every.append((reader, writer))
            for early, _ in every[:17]:
                assert await early.read() == b""
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(asyncio.all_tasks() - before) < len(every), "those of three connections, and of the text"
            goes_on.set()
            assert (await every[-1][0].read()).endswith(b"x 1\n")
            for _, each in every:
                each.close()

    try:
        asyncio.run(story())
    finally:
        goes_on.set()
    assert len(asked) == 1


async def ask(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    return reader, writer


def test_metrics_that_nobody_reads_are_kept_twice_at_most_and_whoever_reads_gets_them() -> None:
    size, most = 4_000_000, 0

    async def story() -> None:
        nonlocal most
        async with (
            asyncio.timeout(60),
            serving("127.0.0.1:0", lambda: bytearray(size), lambda: True, lambda: True) as port,
        ):
            tracemalloc.start()
            silent = []
            for _ in range(20):
                silent.append(await ask(port))
                assert (await silent[-1][0].readline()).startswith(b"HTTP/1.0 200")
            most = tracemalloc.get_traced_memory()[1]
            reader, writer = await ask(port)
            assert (await reader.read()).endswith(bytes(size))
            for _, each in [*silent, (reader, writer)]:
                each.close()

    try:
        asyncio.run(story())
    finally:
        tracemalloc.stop()
    assert most < 3.5 * size


def test_who_does_not_read_metrics_is_left_after_a_while_and_fills_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "_SENDING_SECONDS", 0.1)
    size = 20_000_000

    async def story() -> None:
        async with (
            asyncio.timeout(60),
            serving("127.0.0.1:0", lambda: bytearray(size), lambda: True, lambda: True) as port,
        ):
            before = asyncio.all_tasks()
            reader, writer = await ask(port)
            assert (await reader.readline()).startswith(b"HTTP/1.0 200")
            await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
            with suppress(ConnectionError):
                assert len(await reader.read()) < size
            writer.close()
            reader, writer = await ask(port)
            assert (await reader.readline()).startswith(b"HTTP/1.0 200")
            writer.close()
            await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)

    asyncio.run(story())
    operators = [each for each in caplog.records if not each.name.startswith("bucketingest.")]  # no test's of the job
    assert not [each for each in operators if each.levelno >= logging.WARNING]


def test_accepting_leaves_the_event_loop_to_others() -> None:
    async def story() -> None:
        async with asyncio.timeout(60), listening("127.0.0.1", 0, [web.get("/", hello)]) as port:
            before = len(asyncio.all_tasks())
            many = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]  # nothing is accepted meanwhile
            most = 0
            for _ in range(200):
                await asyncio.sleep(0)
                most = max(most, sum("begin" in repr(each.get_coro()) for each in asyncio.all_tasks()))
            assert most < 10
            assert len(asyncio.all_tasks()) >= before
            for each in many:
                each.close()

    asyncio.run(story())


def test_nothing_stays_when_it_ends() -> None:
    async def story() -> None:
        async with asyncio.timeout(60):
            async with listening("", 0, [web.get("/", hello)]) as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b"", "a connection that is open ends, too"
            writer.close()
            async with listening("", port, []):
                pass
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())
