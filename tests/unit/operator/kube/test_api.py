"""What the operator's calls send, and the errors that they raise."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from bucketingest_operator.kube.api import Api, ApiError, Conflict, NotFound, _error
from bucketingest_operator.kube.connection import NoCluster, find_configuration, kopf_connection
from bucketingest_operator.kube.kinds import CONFIG_MAPS, LEASES, PODS
from support.operator.api_server import TOKEN, ApiServer, api_server

T = TypeVar("T")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    with api_server() as served:
        monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig(tmp_path)))
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        yield served


def call(act: Callable[[Api], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Api() as api:
            return await act(api)

    return asyncio.run(run())


def test_an_object_is_read_with_the_users_token_and_past_proxies(server: ApiServer) -> None:
    lease = {"metadata": {"name": "l"}}
    server.answers["/apis/coordination.k8s.io/v1/namespaces/n/leases/l"] = lease
    assert call(lambda api: api.get(LEASES, "n", "l")) == lease
    assert [authorization for _, _, authorization in server.asked] == [f"Bearer {TOKEN}"]


def test_a_list_is_read_page_by_page(server: ApiServer) -> None:
    server.answers["/api/v1/pods"] = [{"metadata": {"name": name}} for name in "abc"]
    objects, _ = call(lambda api: api.list(PODS, None, "app=x,role in (driver)"))
    assert [each["metadata"]["name"] for each in objects] == ["a", "b", "c"]
    assert {parameters["labelSelector"] for _, parameters, _ in server.asked} == {"app=x,role in (driver)"}


def test_a_refusal_has_its_class(server: ApiServer) -> None:
    with pytest.raises(NotFound, match="no /api/v1/namespaces/n/configmaps/c for you"):
        call(lambda api: api.get(CONFIG_MAPS, "n", "c"))
    server.answers["/api/v1/namespaces/n/configmaps/c"] = 403
    with pytest.raises(ApiError) as refused:
        call(lambda api: api.get(CONFIG_MAPS, "n", "c"))
    assert refused.value.code == 403


def test_an_answer_that_is_not_json_is_an_error(server: ApiServer) -> None:
    server.answers["/api/v1/namespaces/n/pods/p"] = "<html>"
    with pytest.raises(ApiError, match="does not answer"):
        call(lambda api: api.get(PODS, "n", "p"))


def test_a_server_that_is_down_is_an_error(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.url = "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    with pytest.raises(ApiError, match="GET /api/v1/namespaces/n/pods/p: the API server does not answer"):
        call(lambda api: api.get(PODS, "n", "p"))


def test_a_login_program_of_the_kubeconfig_is_run(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "made"},
    }
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    kubeconfig = server.kubeconfig(tmp_path)
    content = yaml.safe_load(kubeconfig.read_text())
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    content["users"][0]["user"] = {"exec": command}
    kubeconfig.write_text(yaml.safe_dump(content))
    server.answers["/api/v1/namespaces/n/pods/p"] = {}
    call(lambda api: api.get(PODS, "n", "p"))
    assert server.asked[-1][2] == "Bearer made"


def test_kopf_has_the_same_address_and_token(server: ApiServer) -> None:
    found = asyncio.run(kopf_connection())
    assert (found.server, found.scheme, found.token) == (server.url, "Bearer", TOKEN)


def test_without_a_cluster_the_error_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(NoCluster, match="Set KUBECONFIG"):
        asyncio.run(find_configuration())


def test_a_deletion_names_the_uid_and_another_object_of_the_name_is_no_longer_there() -> None:
    class Deleting(Api):
        sent: dict[str, Any] | None = None

        async def call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
            self.sent = more["body"]
            raise Conflict("the UID in the precondition is another", code=409)

    api = Deleting()
    with pytest.raises(NotFound):
        asyncio.run(api.delete(PODS, "n", "p", uid="u"))
    assert api.sent is not None
    assert api.sent["preconditions"] == {"uid": "u"}
    with pytest.raises(Conflict):
        asyncio.run(api.delete(PODS, "n", "p"))


def test_what_the_api_server_repeats_of_a_value_is_short_and_plain() -> None:
    refused = _error("create", 422, {"message": 'Invalid value: "' + "\x1b[2J" + "x" * 1_000_000, "reason": "Invalid"})
    assert len(refused.sentence) + len(str(refused)) < 5000
    assert "\x1b" not in str(refused)
