"""What an uninstalled operator would leave undeletable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bucketingest_operator.kube.api import ApiError
from bucketingest_operator.resource import FINALIZER
from bucketingest_operator.uninstall import needed_by
from support.operator.api_server import api_server

PATH = "/apis/bucketingest.dev/v1alpha1/namespaces/{}/bucketingests"


def one(namespace: str, name: str, *finalizers: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name, "finalizers": [*finalizers]}}


def test_those_with_its_finalizer_are_named_and_no_definition_is_no_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        found = [one("a", "bare"), one("a", "held", FINALIZER), one("a", "foreign", "other.example/x")]
        server.answers[PATH.format("a")] = found
        assert asyncio.run(needed_by(["a", "b"])) == ["a/held"]
        server.answers[PATH.format("b")] = 403
        with pytest.raises(ApiError):
            asyncio.run(needed_by(["a", "b"]))
