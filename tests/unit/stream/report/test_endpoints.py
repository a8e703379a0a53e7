"""The job's HTTP server, asked over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from bucketingest.stream.errors import AddressUnusable
from bucketingest.stream.report.endpoints import _CONNECTIONS_MAX, Answer, Endpoints

TIMEOUT = 20


def broken() -> Answer:
    raise ValueError("password=hunter22")


@pytest.fixture
def endpoints() -> Iterator[Endpoints]:
    routes = {
        "/progress": lambda: Answer.of({"phase": "running", "text": "größer"}),
        "/healthz": lambda: Answer.of({"alive": False}, HTTPStatus.SERVICE_UNAVAILABLE),
        "/metrics": lambda: Answer(b"a 1\n", "text/plain; version=0.0.4"),
        "/broken": broken,
    }
    with Endpoints("127.0.0.1", 0, routes) as server:
        yield server


def ask(endpoints: Endpoints, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoints.port, timeout=TIMEOUT)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read()
    finally:
        connection.close()


def test_each_path_has_its_answer(endpoints: Endpoints) -> None:
    status, kind, body = ask(endpoints, "/progress?pretty=1")
    assert (status, kind, json.loads(body)) == (200, "application/json", {"phase": "running", "text": "größer"})
    assert ask(endpoints, "/healthz")[0] == 503
    assert ask(endpoints, "/metrics") == (200, "text/plain; version=0.0.4", b"a 1\n")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_without_a_host_it_answers_on_every_address(address: str) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with (
        Endpoints("", 0, {"/a": lambda: Answer(b"yes", "text/plain")}) as server,
        socket.create_connection((address, server.port), timeout=10) as client,
    ):
        client.sendall(b"GET /a HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"yes")


def test_an_unknown_path_names_the_known_ones(endpoints: Endpoints) -> None:
    status, _, body = ask(endpoints, "/admin")
    assert status == 404
    assert "/progress" in json.loads(body)["paths"]


def test_head_answers_without_a_body(endpoints: Endpoints) -> None:
    status, _, body = ask(endpoints, "/progress", "HEAD")
    assert (status, body) == (200, b"")


def test_nothing_can_be_sent_to_it(endpoints: Endpoints) -> None:
    assert ask(endpoints, "/progress", "POST")[0] == 501


def test_an_endpoint_that_fails_says_nothing_of_the_inside(endpoints: Endpoints) -> None:
    status, _, body = ask(endpoints, "/broken")
    assert status == 500
    assert b"hunter22" not in body
    assert ask(endpoints, "/progress")[0] == 200


def test_clients_that_say_nothing_do_not_pile_up_and_do_not_stay(endpoints: Endpoints) -> None:
    silent = [socket.create_connection(("127.0.0.1", endpoints.port), TIMEOUT) for _ in range(_CONNECTIONS_MAX + 5)]
    refused = 0
    for connection in silent[_CONNECTIONS_MAX:]:
        try:
            refused += connection.recv(1) == b""
        except ConnectionResetError:
            refused += 1
    assert refused == 5
    assert sum(thread.name.startswith("Thread-") for thread in threading.enumerate()) <= _CONNECTIONS_MAX + 2
    for connection in silent:
        connection.close()
    while True:  # the threads see the closed connections one after the other
        try:
            assert ask(endpoints, "/progress")[0] == 200
            break
        except (ConnectionError, http.client.HTTPException):
            continue


def test_an_address_in_use_is_reported_with_what_to_do(endpoints: Endpoints) -> None:
    with pytest.raises(AddressUnusable, match=rf"cannot listen on 127.0.0.1:{endpoints.port}: .*in use; .* --listen"):
        Endpoints("127.0.0.1", endpoints.port, {})


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(AddressUnusable, match=r"192\.0\.2\.1:9808"):
        Endpoints("192.0.2.1", 9808, {})


def test_after_its_end_the_port_is_free_again() -> None:
    with Endpoints("127.0.0.1", 0, {}) as first:
        port = first.port
    with Endpoints("127.0.0.1", port, {}):
        pass
