"""A tenant writes whatever he may, everywhere: the operator lives, and another tenant's lost driver is replaced."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from bucketingest_operator.kube.api import Api
from bucketingest_operator.kube.kinds import CONFIG_MAPS, PODS, Kind
from bucketingest_operator.manifests.attempt_objects import MANAGED, UID_LABEL
from support.cluster.kube import Kube, condition
from support.cluster.people import bucketingest
from support.operator import hostile
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start

log = logging.getLogger(__name__)

OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal takes for an order."""
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
    scrape = operator.get("/metrics")
    assert scrape.status_code == 200
    assert len(scrape.content) < 1_000_000
    told = [
        event["message"]
        for number in range(len(hostile.ANSWERS))
        for event in tenant.kube.events(tenant.namespace, f"answer-{number}")
    ]
    shown = bucketingest(tenant.kube.kubeconfig, "top", "--once", "-n", tenant.namespace)
    assert shown.count("answer-") == len(hostile.ANSWERS)
    assert not OBEYED.search("\n".join([shown, *told])), "a terminal would obey"
    assert max(len(json.dumps(line)) for line in operator.lines()) < 100_000


def memory_limit() -> int:
    """The chart's, in bytes."""
    text = yaml.safe_load(VALUES.read_text(encoding="utf-8"))["operator"]["resources"]["limits"]["memory"]
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi")) * 2**20


LARGE_BYTES: Final = 500_000
CONFIG_MAPS_LARGE, PODS_LARGE = 120, 80


def test_large_objects_with_its_labels_cost_a_start_less_memory_than_they_have(
    kube: Kube, scene: Scene, tenant: Scene, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = start("operator", None, "--namespace", tenant.namespace)
    before = operator.peak_bytes()
    operator.end()
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    asyncio.run(fill(tenant))
    operator.start()
    grown = operator.peak_bytes() - before
    log.info("%.0f MiB more beside %.0f MB", grown / 2**20, (CONFIG_MAPS_LARGE + PODS_LARGE) * LARGE_BYTES / 1e6)
    assert grown < (CONFIG_MAPS_LARGE + PODS_LARGE) * LARGE_BYTES
    assert operator.peak_bytes() < memory_limit()
    scene.apply()
    scene.driver()


async def fill(tenant: Scene) -> None:
    """The tenant fills his namespace with objects that only have the operator's labels."""
    labels = dict(each.split("=") for each in MANAGED.split(",")) | {UID_LABEL: "00000000-0000-4000-8000-000000000000"}
    made: list[tuple[Kind, dict[str, Any]]] = []
    for number in range(CONFIG_MAPS_LARGE + PODS_LARGE):
        metadata = {"name": f"large-{number}", "labels": labels}
        if number < CONFIG_MAPS_LARGE:
            data = {"x": "x" * LARGE_BYTES}
            made.append((CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
        else:
            metadata["annotations"] = {"x": "x" * (LARGE_BYTES // 2)}  # Kubernetes allows 256 KiB
            spec = {"containers": [{"name": "driver", "image": "any", "args": ["x" * (LARGE_BYTES // 2)]}]}
            made.append((PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    async with Api() as api:

        async def create() -> None:
            while made:
                kind, content = made.pop()
                await api.create(kind, tenant.namespace, content)

        await asyncio.gather(*(create() for _ in range(8)))


def test_what_is_said_of_resources_at_rest_is_short(scene: Scene, start: Start) -> None:
    """Of thousands a scrape is read at once."""
    count = 30
    operator = start()
    empty = len(operator.get("/metrics").content)
    scene.kube.apply(*(scene.manifest(f"idle-{number}", suspend=True) for number in range(count)))
    for number in range(count):
        scene.await_condition("Ready", "True", "Suspended", name=f"idle-{number}")
    assert (len(operator.get("/metrics").content) - empty) / count < 2500
