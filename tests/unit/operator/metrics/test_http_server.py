"""The operator's endpoints: on every address, of both families."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bucketingest_operator.metrics.http_server import serving


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
