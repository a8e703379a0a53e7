"""A changed spec is checked by a Job on a real API server; the test plays its pod. The driver runs on meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bucketingest.spec.job_report import TerminationReport
from support.cluster.kube import Manifest, wait_for
from support.operator.observations import termination
from support.operator.process import Mortal
from support.operator.scene import Scene, Start

CHECKED: Manifest = {"upgrade": {"preflight": True}}
TYPO = "source: Kafka at kafak:9092 has no known address"
FAILS = termination(15, TYPO, "PreflightFailed")
PASSES = termination(0, error_class="Completed")


def kafka(server: str) -> Manifest:
    source = {"kafka": {"bootstrapServers": server, "topics": ["orders"], "secretRef": {"name": "access"}}}
    return {**CHECKED, "source": source, "format": {"type": "json", "schema": "value BIGINT"}}


def checks(scene: Scene) -> list[Manifest]:
    """Jobs that check a spec, and are not being deleted."""
    role = "bucketingest.dev/role=preflight"
    found = json.loads(scene.kube.kubectl("get", "jobs", "-n", scene.namespace, "-l", role, "-o", "json"))["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def await_check(scene: Scene, *, other_than: str = "") -> Manifest:
    """The pod of the only check."""

    def find() -> Manifest:
        uids = [each["metadata"]["uid"] for each in checks(scene)]
        pods = [
            each
            for each in scene.pods(role="preflight")
            if [owner["uid"] for owner in each["metadata"]["ownerReferences"]] == uids != [other_than]
        ]
        return pods[0] if pods else {}

    return wait_for(find, within=scene.within, description="the pod of a check", state=scene.state)


def end(scene: Scene, pod: Manifest, report: TerminationReport) -> None:
    name = pod["metadata"]["name"]
    scene.node.bind(scene.namespace, name)
    scene.node.end(scene.namespace, name, report.exit_code, report)


def await_no_check(scene: Scene) -> None:
    wait_for(lambda: not checks(scene), within=scene.within, description="no check is left", state=scene.state)


def names(pods: list[Manifest]) -> list[str]:
    return [str(each["metadata"]["name"]) for each in pods]


def untouched(scene: Scene, pod: str) -> bool:
    (found,) = scene.pods()
    return bool(found["metadata"]["name"] == pod and "deletionTimestamp" not in found["metadata"])


def test_a_spec_with_a_typo_leaves_the_driver_alone_and_the_corrected_one_replaces_it(
    scene: Scene, start: Start
) -> None:
    start()
    scene.apply(**CHECKED)
    first, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        scene.apply(**kafka("kafak:9092"))
        pod = await_check(scene)
        spec: dict[str, Any] = pod["spec"]
        assert spec["serviceAccountName"] == scene.pods()[0]["spec"]["serviceAccountName"]
        assert "kafak:9092" in pod["metadata"]["annotations"]["bucketingest.dev/spec"]
        assert "access" in json.dumps(spec["volumes"])
        scene.await_condition("Reconciling", "True", "PreflightRunning")
        end(scene, pod, FAILS)
        degraded = scene.await_condition("Degraded", "True", "PreflightFailed")
        assert TYPO in degraded["message"]
        scene.await_event("PreflightFailed")
        assert untouched(scene, first)
        scene.await_condition("Ready", "True")
        # an edit while the next check runs: only the newest spec is checked
        scene.apply(**kafka("kafka-1:9092"))
        second = await_check(scene, other_than=pod["metadata"]["ownerReferences"][0]["uid"])
        scene.apply(**kafka("kafka-2:9092"))
        third = await_check(scene, other_than=second["metadata"]["ownerReferences"][0]["uid"])
        assert "kafka-2:9092" in third["metadata"]["annotations"]["bucketingest.dev/spec"]
        assert untouched(scene, first)
        end(scene, third, PASSES)
        scene.await_terminating(first)
        scene.node.remove(scene.namespace, first)
    _, job = scene.run(2, inflight=None)
    with job:
        assert "kafka-2:9092" in scene.given(2)
        scene.await_condition("Degraded", "False", "SpecProven")
        await_no_check(scene)
        scene.await_event("PreflightPassed")


def test_an_operator_that_dies_between_any_two_of_its_writes_checks_a_spec_and_takes_it_over(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    first_operator = start()
    scene.apply(**CHECKED)
    first, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        first_operator.kill()
        scene.within = 600
        with Mortal(scene.kube.kubeconfig, scene.namespace, tmp_path) as operator:
            scene.apply(**kafka("kafak:9092"))
            end(scene, await_check(scene), FAILS)
            scene.await_condition("Degraded", "True", "PreflightFailed")
            assert untouched(scene, first)
            uid = checks(scene)[0]["metadata"]["uid"]
            scene.apply(**kafka("kafka:9092"))
            end(scene, await_check(scene, other_than=uid), PASSES)
            scene.await_terminating(first)
            assert names(scene.pods()) == [first]
            scene.node.remove(scene.namespace, first)
            second, next_job = scene.run(2, inflight=None)
            with next_job:
                scene.await_condition("Degraded", "False", "SpecProven")
                assert names(scene.pods()) == [second]
                await_no_check(scene)
        assert operator.deaths > 5


def test_a_check_that_a_quota_refuses_is_visible_and_a_restart_goes_on_without_it(scene: Scene, start: Start) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-jobs", "namespace": scene.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    scene.kube.apply(quota)
    start()
    scene.apply(**CHECKED)
    first, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        scene.apply(**kafka("kafka:9092"))
        said = scene.await_condition("Reconciling", "True", "PreflightNotRun")
        assert "no-jobs" in said["message"]
        assert untouched(scene, first)
        where = ("-n", scene.namespace, "--overwrite")
        scene.kube.kubectl("annotate", "bi", "orders", "bucketingest.dev/restart=now", *where)
        scene.await_terminating(first)
