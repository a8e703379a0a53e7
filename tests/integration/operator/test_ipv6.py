"""Where there is only IPv6 the operator reaches the API server and drivers, and each server of both is reached."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import requests

from bucketingest.stream.report.endpoints import Answer, Endpoints
from bucketingest_operator.manifests.pod_specs import HTTP_PORT
from support.cluster.kube import Kube
from support.operator.outage import Outage
from support.operator.scene import Scene, Start


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_api_server_operator_and_driver_talk_by_ipv6_alone(
    kube: Kube, scene: Scene, start: Start, tmp_path: Path
) -> None:
    def progress() -> Answer:
        return Answer.of(json.loads(scene.well().model_dump_json(by_alias=True)))

    # The operator knows no other address of the API server, nor of the driver.
    with Outage(kube.kubeconfig, tmp_path, host="::1") as way, Endpoints("::1", HTTP_PORT, {"/progress": progress}):
        assert "http://[::1]:" in way.kubeconfig.read_text()
        operator = start("operator", way.kubeconfig, "--listen", ":0")
        scene.apply()
        scene.node.run(scene.namespace, scene.driver(), "::1")
        scene.await_condition("Ready", "True")
        port = operator.lines("listening")[-1]["port"]
        assert requests.get(f"http://[::1]:{port}/readyz", timeout=10).status_code == 200
