"""The registry's client takes only what a registry answers, within limits, and shows its credentials to nobody else."""

from __future__ import annotations

import itertools
import socket
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.registry import client as client_module
from bucketingest.registry.client import RegisteredSchema, RegistryClient, SubjectVersion
from bucketingest.registry.credentials import Credentials
from bucketingest.registry.errors import RegistryDenied, RegistryUnavailable
from support.registry.http_registry import HttpRegistry, Misbehaviour, http_registry, respond

NAMED = '{"type": "record", "name": "a.B", "fields": []}'
TOKEN = "Bearer secret-token"


def client(registry: HttpRegistry, **more: Any) -> RegistryClient:
    return RegistryClient(registry.url, lambda: Credentials(TOKEN), **more)


def test_schemas_by_id_and_the_newest_of_a_subject(registry: HttpRegistry) -> None:
    registry.register("orders-value", '"string"')
    second = registry.register("orders-value", '"long"', schemaType="PROTOBUF")
    asked = client(registry)
    assert asked.schema(1) == RegisteredSchema('"string"', "AVRO")
    newest = SubjectVersion(2, second, RegisteredSchema('"long"', "PROTOBUF"))
    assert asked.version("orders-value") == asked.version("orders-value", 2) == newest
    asked.check()


def test_what_a_registry_says_it_lacks_is_none(registry: HttpRegistry) -> None:
    registry.subjects["empty"] = []
    asked = client(registry)
    assert (asked.schema(7), asked.version("nobody"), asked.version("empty")) == (None, None, None)


def test_names_of_subjects_are_quoted(registry: HttpRegistry) -> None:
    registry.register(":.ctx:a/b?c#d", '"int"')
    assert client(registry).version(":.ctx:a/b?c#d") is not None
    assert registry.asked == ["/subjects/%3A.ctx%3Aa%2Fb%3Fc%23d/versions/latest"]


def test_references_are_fetched_once_and_those_before_that_they_need(registry: HttpRegistry) -> None:
    def to(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "subject": name, "version": 1} for name in names]

    registry.register("d", '"d"')
    registry.register("b", '"b"', references=to("d"))
    registry.register("c", '"c"', references=to("d"))
    found = registry.register("a", '"a"', references=to("b", "c"))
    wanted = RegisteredSchema('"a"', "AVRO", ('"d"', '"b"', '"c"'), ("d", "b", "c"))
    assert client(registry).schema(found) == wanted
    assert len(registry.requests) == 4


@pytest.mark.parametrize(
    "references",
    [[{"name": "x"}], [{"name": "x", "subject": "x", "version": "?"}], [{"subject": "none", "version": 1}]],
)
def test_a_broken_reference_is_no_answer(registry: HttpRegistry, references: list[Any]) -> None:
    found = registry.register("a", '"a"', references=references)
    with pytest.raises(RegistryUnavailable):
        client(registry).schema(found)


def test_references_in_a_circle_end(registry: HttpRegistry) -> None:
    found = registry.register("a", '"a"', references=[{"name": "a", "subject": "a", "version": 1}])
    with pytest.raises(RegistryUnavailable, match="more than 100 references"):
        client(registry).schema(found)


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_is_neither_an_outage_nor_an_absence(registry: HttpRegistry, status: int) -> None:
    registry.misbehaves = lambda handler: respond(handler, status, {"error_code": 40403})
    with pytest.raises(RegistryDenied, match=rf"denies access \({status}\).*secretRef") as denied:
        client(registry).schema(1)
    assert denied.value.exit_code is ExitCode.ACCESS_DENIED
    assert "secret-token" not in str(denied.value)


def _drips(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        for _ in range(10_000):
            handler.wfile.write(b" ")
            handler.wfile.flush()


def _hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("misbehaves", "said"),
    [
        (lambda handler: respond(handler, 500, {"error_code": 50001}), "with 500"),
        (lambda handler: respond(handler, 503, b"<html>"), "with 503"),
        (lambda handler: respond(handler, 429, {}), "with 429"),
        (lambda handler: respond(handler, 404, b"<html>no such page</html>"), "with 404"),
        (lambda handler: respond(handler, 404, {"error_code": 404}), "with 404"),
        (lambda handler: respond(handler, 404, [40403]), "with 404"),
        (lambda handler: respond(handler, 500, {"error_code": 40403}), "with 500"),
        (lambda handler: respond(handler, 200, b"<html>"), "no JSON object"),
        (lambda handler: respond(handler, 200, b"[" * 100_000), "no JSON object"),
        (lambda handler: respond(handler, 200, b"\xff"), "no JSON object"),
        (lambda handler: respond(handler, 200, b'{"schema": "cut'), "no JSON object"),
        (lambda handler: respond(handler, 200, []), "no JSON object"),
        (lambda handler: respond(handler, 200, {"schema": 7}), "without a schema"),
        (_hangs_up, "does not answer"),
    ],
    ids=itertools.count(),
)
def test_an_answer_that_no_registry_gives_says_nothing_about_a_schema(
    registry: HttpRegistry, misbehaves: Misbehaviour, said: str
) -> None:
    registry.misbehaves = misbehaves
    with pytest.raises(RegistryUnavailable, match=said) as unavailable:
        client(registry).schema(1)
    assert unavailable.value.exit_code is ExitCode.SOURCE_UNAVAILABLE


def test_a_registry_that_is_down_is_unavailable(registry: HttpRegistry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        registry.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(RegistryUnavailable, match=r"does not answer: .*refused"):
        client(registry).schema(1)


def test_a_registry_that_hangs_is_given_up(registry: HttpRegistry) -> None:
    def hangs(_: BaseHTTPRequestHandler) -> None:
        registry.over.wait()

    registry.misbehaves = hangs
    with pytest.raises(RegistryUnavailable, match="timed out"):
        client(registry, timeout_seconds=0.1).schema(1)


def test_an_answer_that_never_ends_is_given_up(registry: HttpRegistry) -> None:
    registry.misbehaves = _drips
    hours = iter(range(0, 10**9, 3600))
    with pytest.raises(RegistryUnavailable, match="too slow"):
        client(registry, now=lambda: next(hours)).schema(1)


@pytest.mark.parametrize("status", [200, 404])
def test_a_huge_answer_is_not_read(registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(client_module, "BYTES_MAX", 1000)
    registry.misbehaves = lambda handler: respond(handler, status, {"error_code": 40403, "schema": "x" * 1000})
    with pytest.raises(RegistryUnavailable, match="more than 1000 bytes" if status == 200 else "with 404"):
        client(registry).schema(1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_so_that_credentials_go_nowhere_else(registry: HttpRegistry, status: int) -> None:
    with http_registry() as other:
        other.register("a", NAMED)
        registry.misbehaves = lambda handler: respond(handler, status, b"", Location=f"{other.url}{handler.path}")
        with pytest.raises(RegistryUnavailable, match=rf"with {status}.*put the address itself"):
            client(registry).schema(1)
        assert other.requests == []
    assert [headers["authorization"] for _, headers in registry.requests] == [TOKEN]


def test_credentials_are_asked_for_at_each_request_and_absent_ones_are_not_sent(registry: HttpRegistry) -> None:
    registry.register("a", NAMED)
    given = iter([Credentials(), Credentials("Basic abc")])
    asked = RegistryClient(registry.url, lambda: next(given))
    asked.schema(1)
    asked.schema(1)
    assert [headers.get("authorization") for _, headers in registry.requests] == [None, "Basic abc"]
