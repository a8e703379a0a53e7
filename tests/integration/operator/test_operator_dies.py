"""Operators that die, hang or end: nothing is done twice, nothing is left undone, and another one takes over."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from bucketingest.spec.job_report import InflightReport
from support.cluster.kube import wait_for
from support.operator.observations import termination
from support.operator.process import Mortal
from support.operator.scene import STUCK, Scene, Start


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4])
def test_an_operator_that_dies_at_any_moment_leaves_one_driver(scene: Scene, start: Start, delay: float) -> None:
    operator = start()
    scene.apply()
    time.sleep(delay)
    operator.kill()
    operator.start()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True", within=60)
        assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
        scene.kube.delete(scene.namespace, "orders")
        time.sleep(delay)
        operator.kill()
        operator.start()
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
    scene.await_gone()


def test_an_operator_that_dies_between_any_two_of_its_writes_gets_everything_done_once(
    scene: Scene, tmp_path: Path
) -> None:
    scene.within = 600  # some thirty starts of an operator, on a busy machine
    with Mortal(scene.kube.kubeconfig, scene.namespace, tmp_path) as operator:
        scene.apply()
        pod, job = scene.run(inflight=STUCK)
        with job:
            scene.await_terminating(pod)
            assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
            scene.node.remove(scene.namespace, pod)
        second, job = scene.run(2, inflight=InflightReport(instant=STUCK.instant, age_seconds=1))
        with job:
            scene.await_condition("Ready", "True")
            assert [each["metadata"]["name"] for each in scene.pods()] == [second]
            scene.kube.delete(scene.namespace, "orders")
            scene.await_terminating(second)
            scene.node.remove(scene.namespace, second)
        rollback = wait_for(
            lambda: scene.pods(role="rollback"), within=scene.within, description="a rollback", state=scene.state
        )
        assert len(rollback) == 1
        name = rollback[0]["metadata"]["name"]
        scene.node.bind(scene.namespace, name)
        scene.node.end(scene.namespace, name, 0, termination(0, error_class="Ok"))
        scene.await_gone()
    assert operator.deaths > 10


def test_an_operator_that_dies_between_any_two_of_its_writes_goes_back_to_the_last_spec_that_committed(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    first_operator = start()
    scene.apply()
    first, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
    first_operator.kill()
    scene.node.remove(scene.namespace, first)
    scene.apply(transform={"sql": "SELECT valu FROM source"})
    scene.within = 600
    with Mortal(scene.kube.kubeconfig, scene.namespace, tmp_path) as operator:
        second = scene.driver(2)
        assert "valu FROM" in scene.given(2)
        scene.node.bind(scene.namespace, second)
        scene.node.end(scene.namespace, second, 2, termination(2, "There is no column valu."))
        _, job = scene.run(3, inflight=None)
        with job:
            degraded = scene.await_condition("Degraded", "True", "SpecNotProven")
            assert "There is no column valu." in degraded["message"]
            scene.await_condition("Ready", "True")
        assert scene.given(3) == scene.given(1)
        assert [each.get("generation") for each in scene.resource()["status"]["attempts"]] == [1, 2, 1]
    assert operator.deaths > 5


def test_another_operator_takes_over_from_one_that_hangs_which_then_does_nothing(scene: Scene, start: Start) -> None:
    first, second = start("first"), start("second")
    wait_for(lambda: first.metric("bucketingest_operator_leader") == 1, within=60, description="the first leads")
    assert second.metric("bucketingest_operator_leader") == 0
    assert second.metric("bucketingest_operator_reconcile_seconds_count") == 0
    first.send(signal.SIGSTOP)
    wait_for(lambda: second.metric("bucketingest_operator_leader") == 1, within=60, description="the second leads")
    scene.apply()
    first.send(signal.SIGCONT)
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
    assert first.metric("bucketingest_operator_leader") == 0
    assert first.metric("bucketingest_resource_info") is None
    assert first.lines("decision") == []


def test_an_operator_that_gets_sigterm_releases_the_lease_at_once(scene: Scene, start: Start) -> None:
    first, second = start("first"), start("second")
    wait_for(lambda: first.metric("bucketingest_operator_leader") == 1, within=60, description="the first leads")
    assert first.end() == 0
    # without a release the lease would last 15 s
    wait_for(lambda: second.metric("bucketingest_operator_leader") == 1, within=12, description="the second leads")
