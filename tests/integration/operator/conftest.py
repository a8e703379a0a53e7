"""A real API server with controllers, without a node: tests play the node, and the operator is a real process."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import decode_observation, encode_plan
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from devcluster.node import machine
from support.cluster.kube import Kube, wait_for
from support.operator.played import PlayedNode
from support.operator.process import OperatorProcess
from support.operator.scene import POD_SECURITY, Scene

CRD = Path(__file__).parents[3] / "crds" / "bucketingests.yaml"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kube() -> Iterator[Kube]:
    """The API of a control plane: one for each test process."""
    if (reason := machine.why_not()) is not None:
        message = f"NO OPERATOR TESTS: {reason}"
        if os.environ.get("CI") or os.environ.get("BUCKETINGEST_REQUIRE_CLUSTER"):
            pytest.fail(message)
        pytest.skip(message)
    cluster = EmbeddedCluster(instance(f"api-{os.environ.get('PYTEST_XDIST_WORKER', 'one')}"))
    was_up = cluster.instance.running() is not None
    cluster.up(with_node=False)
    kube = Kube(cluster.kubeconfig)
    kube.kubectl("apply", "--server-side", "-f", str(CRD))
    # `kubectl wait` fails on an object whose conditions are still null.
    wait_for(lambda: "Established=True" in conditions_of_definition(kube), within=60, description="the definition")
    PlayedNode(cluster.kubeconfig).appear()
    yield kube
    if not was_up:
        cluster.down()


def conditions_of_definition(kube: Kube) -> list[str]:
    """As `Type=Status`."""
    found = json.loads(kube.kubectl("get", "crd/bucketingests.bucketingest.dev", "-o", "json"))
    return [f"{each['type']}={each['status']}" for each in found.get("status", {}).get("conditions") or ()]


@pytest.fixture
def scene(kube: Kube) -> Scene:
    """A namespace for one test. It takes restricted pods only, as large clusters do."""
    number = next(_numbers)
    namespace = f"t{os.getpid()}-{number}"
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {POD_SECURITY: "restricted"}},
        }
    )
    return Scene(kube, PlayedNode(kube.kubeconfig), namespace)


@pytest.fixture
def start(kube: Kube, scene: Scene, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts operators for the namespace, and ends them."""
    started: list[OperatorProcess] = []

    def start(name: str = "operator", kubeconfig: Path | None = None, *options: str) -> OperatorProcess:
        where = ["--namespace", scene.namespace, "--leader-election-namespace", scene.namespace, *options]
        operator = OperatorProcess(kubeconfig or kube.kubeconfig, tmp_path / f"{name}.log", *where)
        started.append(operator)
        operator.start()
        return operator

    yield start
    for operator in started:
        if operator.runs:
            operator.kill()
    for operator in started:
        for line in operator.lines("decision"):
            plan = reconcile(decode_observation(line["observation"]))
            assert encode_plan(plan) == line["plan"], "a decision in the log cannot be replayed"
