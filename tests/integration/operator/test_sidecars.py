"""A mesh's container that runs on when the job's has ended: each pod is judged by the job's, in whatever role."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.spec.job_report import InflightReport
from support.cluster.kube import Manifest, wait_for
from support.operator.observations import services, termination
from support.operator.scene import STUCK, Scene, Start

DONE = termination(0, error_class="Completed")


@pytest.fixture
def meshed(scene: Scene) -> Scene:
    """A namespace in which each pod has such a container."""
    scene.node.has_mesh = True
    return scene


def await_pod(scene: Scene, role: str) -> str:
    """The only pod of a Job."""
    (pod,) = wait_for(lambda: scene.pods(role=role), within=60, description=f"a pod of {role}", state=scene.state)
    scene.node.bind(scene.namespace, pod["metadata"]["name"])
    return str(pod["metadata"]["name"])


def phases(scene: Scene, role: str) -> list[str]:
    return [each["status"]["phase"] for each in scene.pods(role=role)]


def test_a_driver_that_has_ended_gives_way_to_the_next(meshed: Scene, start: Start) -> None:
    start()
    meshed.apply()
    pod, job = meshed.run(inflight=None)
    with job:
        meshed.await_condition("Ready", "True")
        meshed.node.end(meshed.namespace, pod, 137)
    _, job = meshed.run(2, inflight=None)
    with job:
        meshed.await_condition("Ready", "True")
        (first, _) = meshed.resource()["status"]["attempts"]
        assert first["outcome"] == "DriverLost"


def test_a_check_that_has_ended_lets_the_changed_spec_in(meshed: Scene, start: Start) -> None:
    start()
    checked: Manifest = {"upgrade": {"preflight": True}}
    meshed.apply(**checked)
    first, job = meshed.run(inflight=None)
    with job:
        meshed.await_condition("Ready", "True")
        meshed.apply(**checked, commit={"interval": "45s"})
        meshed.node.end(meshed.namespace, await_pod(meshed, "preflight"), 0, DONE)
        meshed.await_terminating(first)


def test_a_rollback_that_has_ended_lets_the_resource_go(meshed: Scene, start: Start) -> None:
    start()
    meshed.apply()
    pod, job = meshed.run(inflight=STUCK)
    with job:
        meshed.await_terminating(pod)
        meshed.node.remove(meshed.namespace, pod)
    second, job = meshed.run(2, inflight=InflightReport(instant=STUCK.instant, age_seconds=1))
    with job:
        meshed.await_condition("Ready", "True")
        meshed.kube.delete(meshed.namespace, "orders")
        meshed.await_terminating(second)
        meshed.node.remove(meshed.namespace, second)
    name = await_pod(meshed, "rollback")
    meshed.node.end(meshed.namespace, name, 0, termination(0, error_class="Ok"))
    meshed.await_gone()


def test_table_services_of_a_suspended_resource_that_have_ended_are_done(meshed: Scene, start: Start) -> None:
    operator = start()
    asked: Manifest = {"services": {"whileSuspended": True}}
    meshed.apply(**asked)
    pod, job = meshed.run(inflight=None, services=services())
    with job:
        meshed.await_condition("Ready", "True")
    meshed.apply(**asked, suspend=True)
    meshed.await_terminating(pod)
    meshed.node.remove(meshed.namespace, pod)
    meshed.await_condition("Ready", "True", "Suspended")
    operator.kill()
    hours_ago = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = [{"op": "replace", "path": "/status/attempts/0/endedAt", "value": hours_ago}]
    patch = ("--subresource=status", "--type=json", "-p", json.dumps(ended))
    meshed.kube.kubectl("patch", "bucketingest", "orders", "-n", meshed.namespace, *patch)
    operator.start()
    name = await_pod(meshed, "compaction")
    meshed.await_condition("ServicesHealthy", "True", "RunsSuspended")
    meshed.node.end(meshed.namespace, name, 0)
    meshed.await_condition("ServicesHealthy", "True", "DoneSuspended")
    assert phases(meshed, "compaction") == ["Running"]


def test_an_audit_that_has_ended_says_what_it_found(meshed: Scene, start: Start) -> None:
    start()
    asked = {"against": "postgres://auditor@db/shop", "window": {"start": "00:00", "duration": "24h"}}
    meshed.apply(audit=asked)
    _, job = meshed.run(inflight=None)
    with job:
        meshed.node.end(meshed.namespace, await_pod(meshed, "audit"), 0, termination(0))
        meshed.await_condition("MirrorEqual", "True", "Equal")
        assert phases(meshed, "audit") == ["Running"]
