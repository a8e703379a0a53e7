"""Kopf serves the webhook on both families of addresses, and asks who knows."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bucketingest_operator.handlers import WEBHOOK_PATH, KopfThread, Webhook
from support.operator.api_server import ApiServer, api_server
from support.operator.certificates import make_certificate

GROUP = "/apis/bucketingest.dev/v1alpha1"
KIND = {"name": "bucketingests", "singularName": "bucketingest", "kind": "BucketIngest", "namespaced": True}


def discovery(server: ApiServer) -> None:
    """What an API server answers to one that looks for the definition."""
    version = {"groupVersion": "bucketingest.dev/v1alpha1", "version": "v1alpha1"}
    group = {"name": "bucketingest.dev", "versions": [version], "preferredVersion": version}
    empty: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "items": []}
    server.answers |= {
        "/api": {"versions": ["v1"]},
        "/api/v1": {"resources": []},
        "/apis": {"groups": [group]},
        GROUP: {"resources": [{**KIND, "verbs": ["get", "list", "watch", "patch"]}]},
        f"{GROUP}/namespaces/ingest/bucketingests": empty,
    }


def review(name: str) -> dict[str, Any]:
    body = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": name, "namespace": "ingest", "uid": name},
        "spec": {"suspend": True},
    }
    resource = {"group": "bucketingest.dev", "version": "v1alpha1", "resource": "bucketingests"}
    request = {"uid": "1", "resource": resource, "operation": "CREATE", "userInfo": {}, "object": body}
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return {**kind, "request": {**request, "oldObject": None, "dryRun": True}}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_it_answers_with_the_sentence_of_the_judge(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    authority = make_certificate(tmp_path, address)
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    judged: list[tuple[dict[str, Any], object]] = []

    def judge(body: dict[str, Any], before: object) -> str | None:
        judged.append((body, before))
        return None if body["metadata"]["name"] == "right" else "spec: is wrong\nspec: twice"

    async def ask() -> dict[str, Any]:
        watching = asyncio.create_task(
            KopfThread(lambda _kind, _body: None, ["ingest"], Webhook(port, tmp_path), judge).run()
        )
        trusted = ssl.create_default_context(cadata=authority.decode())
        host = f"[{address}]" if ":" in address else address
        answers = {}
        async with asyncio.timeout(60), aiohttp.ClientSession() as http:
            for name in ("right", "wrong"):
                while name not in answers:
                    assert not watching.done(), watching.result()
                    try:
                        url = f"https://{host}:{port}/{WEBHOOK_PATH}"
                        async with http.post(url, json=review(name), ssl=trusted) as answer:
                            answers[name] = (await answer.json())["response"]
                    except aiohttp.ClientConnectionError:
                        await asyncio.sleep(0.05)  # it does not serve yet
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return answers

    with api_server() as server:
        discovery(server)
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        answers = asyncio.run(ask())
    assert answers["right"]["allowed"] is True
    assert answers["wrong"]["allowed"] is False
    assert answers["wrong"]["status"] == {"message": "spec: is wrong\nspec: twice", "code": 422}
    assert [(body["spec"], before) for body, before in judged] == [({"suspend": True}, None)] * 2
    assert json.dumps(judged[0][0])  # plain objects, not views of Kopf's
