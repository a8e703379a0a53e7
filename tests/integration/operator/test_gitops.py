"""What tools that apply for people rely on: server-side apply takes what is stored, and Ready ends their wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster.kube import Manifest, condition
from support.operator.made_objects import KAFKA
from support.operator.scene import Scene, Start


def server_side(scene: Scene, manifest: Manifest, manager: str = "flux") -> None:
    """Apply as Flux and Argo CD can."""
    scene.kube.kubectl(
        *("apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-"),
        stdin=json.dumps(manifest),
    )


def nulls(content: Any, path: str = "") -> list[str]:
    """Where a document has a null."""
    if isinstance(content, dict):
        return [found for name, value in content.items() for found in nulls(value, f"{path}.{name}")]
    if isinstance(content, list):
        return [found for number, value in enumerate(content) for found in nulls(value, f"{path}[{number}]")]
    return [path] if content is None else []


@pytest.mark.parametrize("source", [{}, KAFKA], ids=["rate", "kafka"])
def test_what_is_stored_can_be_applied_again_and_no_field_needs_a_null(scene: Scene, source: Manifest) -> None:
    clean: tuple[Manifest, ...] = ({}, {"versions": 3}, {"retain": "48h"}, {"versions": 2})
    for each in clean:
        server_side(scene, scene.manifest(suspend=True, services={"clean": each}, **source))
        stored = scene.resource()
        assert stored["spec"]["services"]["clean"] == each, "one of two needs no null of the other"
        assert nulls(stored["spec"]) == []
        again = {name: stored[name] for name in ("apiVersion", "kind", "spec")}
        metadata = {name: stored["metadata"][name] for name in ("name", "namespace")}
        server_side(scene, {**again, "metadata": metadata}, "argocd")
        assert scene.resource()["metadata"]["generation"] == stored["metadata"]["generation"]
        # argocd gives its fields up, so that the next one can take some away
        server_side(
            scene, {**again, "metadata": metadata, "spec": scene.manifest(suspend=True, **source)["spec"]}, "argocd"
        )


def test_a_suspended_resource_is_ready_for_whoever_waits(scene: Scene, start: Start) -> None:
    start()
    server_side(scene, scene.manifest(suspend=True))
    words = scene.kube.kubectl(
        "wait", "bi/orders", "-n", scene.namespace, "--for=condition=Ready", f"--timeout={scene.within:.0f}s"
    )
    assert "condition met" in words
    found = scene.resource()
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    for kind in ("Reconciling", "Stalled"):
        assert condition(found, kind).get("status") != "True"
