"""A tenant writes whatever he may, everywhere: the operator lives, and another tenant's lost driver is replaced."""

from __future__ import annotations

import json
import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import yaml

from support.cluster.kube import Kube, condition
from support.operator import hostile
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start

log = logging.getLogger(__name__)

VALUES: Final = Path(__file__).parents[3] / "charts" / "bucketingest" / "values.yaml"


@pytest.fixture
def tenant(kube: Kube, scene: Scene) -> Scene:
    """The namespace of the hostile tenant, which takes any pod."""
    found = replace(scene, namespace=f"{scene.namespace}-hostile", paths={})
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace}})
    return found


def hostile_drivers(tenant: Scene, stack: ExitStack) -> dict[str, hostile.HostileDriver]:
    """A pipeline for each answer, with a driver that gives it."""
    answers = dict(zip(hostile.ANSWERS, (f"answer-{number}" for number in range(len(hostile.ANSWERS))), strict=True))
    for name in answers.values():
        tenant.apply(name)
    found = {}
    for which, name in answers.items():
        pod, ip = tenant.driver(name=name), tenant.address()
        one = hostile.HostileDriver(ip, hostile.ANSWERS[which], name=name, namespace=tenant.namespace)
        found[which] = stack.enter_context(one)
        tenant.node.run(tenant.namespace, pod, ip)
    return found


def hostile_objects(tenant: Scene) -> None:
    """Everything else of the tables, and their statuses."""
    tenant.apply("owner", suspend=True)
    owner = tenant.resource("owner")
    names = {f"spec-{number}": spec for number, spec in enumerate(hostile.SPECS.values())}
    specs = [tenant.manifest(name, **spec) for name, spec in names.items()]
    everything = [*hostile.objects_of(owner), *specs]
    tenant.kube.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": everything})
    )
    for number, status in enumerate(hostile.POD_STATUSES.values()):
        tenant.node.set_status(tenant.namespace, f"pod-{number}", status)
    annotations = {f"bucketingest.dev/a{number}": "x" * 25_000 for number in range(9)}
    annotations["bucketingest.dev/restart"] = hostile.ESCAPES + "7" * 25_000
    tenant.kube.patch(tenant.namespace, "owner", {"metadata": {"annotations": annotations}})
    for name in names:
        tenant.await_decided(name)


def test_fifty_hostile_objects_neither_end_the_operator_nor_delay_another_tenants_driver(
    scene: Scene, tenant: Scene, start: Start
) -> None:
    operator = start("operator", None, "--namespace", tenant.namespace)
    scene.apply()
    first, job = scene.run(inflight=None)
    with ExitStack() as stack:
        stack.enter_context(job)
        scene.await_condition("Ready", "True")
        drivers = hostile_drivers(tenant, stack)
        hostile_objects(tenant)
        for which, each in drivers.items():
            assert each.asked.wait(60), which
        began = time.monotonic()
        scene.node.remove(scene.namespace, first)
        # The silent ones are silent until the end of the test: nobody waits for them.
        scene.driver(2)
        log.info("another tenant's lost driver was replaced after %.2f s", time.monotonic() - began)
        _, job = scene.run(2, inflight=None)
        stack.enter_context(job)
        scene.await_condition("Ready", "True")
        assert operator.runs
        checked(operator, tenant)
        # Everything is read once more, at once, by one that knows nothing yet.
        operator.kill()
        operator.start()
        scene.lose(2)
        scene.driver(3)
        checked(operator, tenant)
    who = {"namespace": scene.namespace, "name": "orders"}
    assert operator.metric("bucketingest_operator_leader") == 1
    assert operator.metric("bucketingest_resource_errors_total", **who) in {None, 0}


def checked(operator: OperatorProcess, tenant: Scene) -> None:
    """It stays small, and what it says of the tenant is short and moves no terminal's cursor."""
    assert operator.peak_bytes() < memory_limit()
    for number in range(len(hostile.ANSWERS)):
        found = tenant.resource(f"answer-{number}")
        assert "\x1b" not in json.dumps(found["status"], ensure_ascii=False)
        assert condition(found, "Stalled")["status"] == "False"
    assert len(operator.get("/metrics").content) < 1_000_000
    assert max(len(json.dumps(line)) for line in operator.lines()) < 100_000


def memory_limit() -> int:
    """The chart's, in bytes."""
    text = yaml.safe_load(VALUES.read_text(encoding="utf-8"))["operator"]["resources"]["limits"]["memory"]
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi")) * 2**20
