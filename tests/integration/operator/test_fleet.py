"""Many pipelines in one cluster: a definition newer than the operator, and restarts of all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from bucketingest.spec.crd import custom_resource_definition
from support.cluster.kube import Kube, condition, wait_for
from support.operator.outage import Outage
from support.operator.scene import Scene, Start

NAMES = ("one", "two", "three")


@pytest.fixture
def newer_definition(kube: Kube) -> Iterator[None]:
    """The definition of a later version: fields with defaults, in the spec and deeper."""
    now = custom_resource_definition()
    later = copy.deepcopy(now)
    spec = later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    field = {"type": "string", "maxLength": 10, "default": "later"}
    spec["properties"]["later"] = field
    commit = spec["properties"]["commit"]
    commit["properties"]["later"] = field
    commit["default"]["later"] = "later"
    kube.apply(later)
    yield
    kube.apply(now)


@pytest.fixture
def older_definition(kube: Kube) -> Iterator[None]:
    """The definition before a changed spec was checked and on probation: the API server drops what it does not know."""
    now = custom_resource_definition()
    older = copy.deepcopy(now)
    properties = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        del properties[part]["properties"]["upgrade"]
    kube.apply(older)
    yield
    kube.apply(now)


@pytest.mark.usefixtures("older_definition")
def test_with_an_older_definition_a_changed_spec_still_reaches_its_driver(scene: Scene, start: Start) -> None:
    operator = start()
    table = {"path": f"s3://lake/{scene.namespace}/orders", "recordKey": ["value"]}
    scene.kube.create(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "orders", "namespace": scene.namespace},
            "spec": {"source": {"rate": {"rowsPerSecond": 10}}, "table": table},
        }
    )
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        assert "upgrade" not in scene.resource()["status"]
        scene.kube.patch(scene.namespace, "orders", {"spec": {"commit": {"interval": "45s"}}})
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
    _, job = scene.run(2, inflight=None)
    with job:
        scene.await_condition("Ready", "True")
    assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0


def test_a_newer_definition_neither_restarts_nor_orphans_a_driver_of_an_older_operator(
    scene: Scene, start: Start, request: pytest.FixtureRequest
) -> None:
    operator = start()
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        request.getfixturevalue("newer_definition")
        operator.end()
        operator.start()
        spec = scene.resource()["spec"]
        assert (spec["later"], spec["commit"]["later"]) == ("later", "later")
        # an edit of what no driver reads: the whole spec is read again
        scene.apply(slo={"commitLatency": "90s"})
        wait_for(
            lambda: scene.resource()["status"]["observedGeneration"] == scene.resource()["metadata"]["generation"],
            within=60,
            description="the new generation is observed",
            state=scene.state,
        )
        scene.await_event("UnknownFields")
        assert condition(scene.resource(), "Stalled")["status"] == "False"
        assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
        assert "deletionTimestamp" not in scene.pods()[0]["metadata"]
        scene.node.remove(scene.namespace, pod)
    second = scene.driver(2)
    settings = scene.kube.kubectl(
        "get", "configmap", second.removesuffix("-driver"), "-n", scene.namespace, "-o", "yaml"
    )
    assert "later" not in yaml.safe_load(settings)["data"]["bucketingest.yaml"]


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_of_many_pipelines_that_must_restart_only_so_many_do_at_once(
    kube: Kube, scene: Scene, start: Start, tmp_path: Path, delay: float
) -> None:
    jobs = {}
    scene.within = 90
    with ExitStack() as stack:
        way = stack.enter_context(Outage(kube.kubeconfig, tmp_path))
        way.delay = delay
        operator = start("operator", way.kubeconfig, "--max-restarts", "1")
        for name in NAMES:
            scene.apply(name)
            jobs[name] = scene.run(name=name, inflight=None)
            stack.enter_context(jobs[name][1])
        for name in NAMES:
            scene.await_condition("Ready", "True", name=name)
        scene.kube.kubectl("annotate", "bi", "--all", "-n", scene.namespace, "bucketingest.dev/restart=1")

        def stopping() -> list[str]:
            pods = [pod for name in NAMES for pod in scene.pods(name)]
            return [
                each["metadata"]["labels"]["app.kubernetes.io/instance"]
                for each in pods
                if "deletionTimestamp" in each["metadata"]
            ]

        for count in range(len(NAMES)):
            (name,) = wait_for(stopping, within=60, description="one is stopped", state=operator.log_text)
            for other in set(NAMES) - {name}:
                assert condition(scene.resource(other), "Ready")["status"] == "True", (count, other)
            waiting = [
                other
                for other in NAMES
                if condition(scene.resource(other), "Reconciling")["reason"] == "RestartWaiting"
            ]
            assert name not in waiting
            scene.node.remove(scene.namespace, jobs[name][0])
            _, job = scene.run(2, name, inflight=None)
            stack.enter_context(job)
            scene.await_condition("Ready", "True", name=name)
        assert [scene.resource(name)["status"]["attempt"] for name in NAMES] == [2, 2, 2]
