"""The Job of a compaction on a real API server: created once, refused without harm, gone with its reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from bucketingest.spec.job_report import CompactionWork
from support.cluster.kube import Manifest, wait_for
from support.operator.observations import services
from support.operator.scene import Scene, Start

WORK = CompactionWork(compaction="20261121115000000", number=3, round=1, chunks=64, size=10**10)
NEXT = WORK.model_copy(update={"round": 2})
SPEC: Manifest = {"services": {"mode": "job", "compaction": {"job": {"parallelism": 3}}}}


def jobs(scene: Scene) -> list[Manifest]:
    found = scene.kube.kubectl("get", "jobs", "-n", scene.namespace, "-o", "json")
    return list(json.loads(found)["items"])


def rounds(scene: Scene) -> list[str]:
    return [each["metadata"]["annotations"]["bucketingest.dev/compaction"] for each in jobs(scene)]


def await_rounds(scene: Scene, *expected: str) -> None:
    wait_for(lambda: rounds(scene) == list(expected), within=scene.within, description=f"{expected}", state=scene.state)


def test_a_compactions_job_follows_what_the_driver_wants(scene: Scene, start: Start) -> None:
    operator = start()
    scene.apply(**SPEC)
    _, job = scene.run(inflight=None, services=services(job=WORK, compacting=WORK.compaction))
    with job:
        await_rounds(scene, "3/1")
        (made,) = jobs(scene)
        assert made["spec"]["completionMode"] == "Indexed"
        (owner,) = made["metadata"]["ownerReferences"]
        assert owner["uid"] == scene.resource()["metadata"]["uid"]
        wait_for(lambda: len(scene.pods(role="compaction")) == 3, within=60, description="its pods", state=scene.state)
        assert scene.resource()["status"]["services"]["pending"] == WORK.compaction
        scene.await_condition("ServicesHealthy", "True", "Compacting")
        # an operator that is replaced in the middle changes nothing
        operator.kill()
        operator.start()
        wait_for(lambda: operator.metric("bucketingest_attempt") == 1, within=60, description="it acts")
        assert [each["metadata"]["uid"] for each in jobs(scene)] == [made["metadata"]["uid"]]
        assert len(scene.pods()) == 1
        # another round, then none
        job.report = scene.well(inflight=None, services=services(job=NEXT, compacting=NEXT.compaction))
        await_rounds(scene, "3/2")
        job.report = scene.well(inflight=None, services=services())
        await_rounds(scene)
        # pods run only as long as a job commits what they make
        job.report = scene.well(inflight=None, services=services(job=NEXT, compacting=NEXT.compaction))
        await_rounds(scene, "3/2")
        scene.apply(**SPEC, suspend=True)
        await_rounds(scene)


def test_a_suspended_resource_gets_a_job_of_its_own_which_goes_before_the_next_driver(
    scene: Scene, start: Start
) -> None:
    operator = start()
    asked: Manifest = {"services": {"whileSuspended": True}}
    scene.apply(**asked)
    pod, job = scene.run(inflight=None, services=services())
    with job:
        scene.await_condition("Ready", "True")
    scene.apply(**asked, suspend=True)
    scene.await_terminating(pod)
    scene.node.remove(scene.namespace, pod)
    scene.await_condition("Ready", "True", "Suspended")
    assert jobs(scene) == []
    operator.kill()
    hours_ago = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = [{"op": "replace", "path": "/status/attempts/0/endedAt", "value": hours_ago}]
    patch = ("--subresource=status", "--type=json", "-p", json.dumps(ended))
    scene.kube.kubectl("patch", "bucketingest", "orders", "-n", scene.namespace, *patch)
    operator.start()
    await_rounds(scene, "0/0")
    (made,) = jobs(scene)
    scene.await_condition("ServicesHealthy", "True", "RunsSuspended")
    wait_for(lambda: len(scene.pods(role="compaction")) == 1, within=60, description="its pod", state=scene.state)
    (its,) = scene.pods(role="compaction")
    assert its["metadata"]["annotations"]["bucketingest.dev/spec"]
    scene.node.end(scene.namespace, its["metadata"]["name"], 0)
    scene.await_condition("ServicesHealthy", "True", "DoneSuspended")
    assert [each["metadata"]["uid"] for each in jobs(scene)] == [made["metadata"]["uid"]], "it stays until the next"
    scene.apply(**asked)
    await_rounds(scene)
    scene.driver(2)


def test_a_job_that_a_quota_refuses_is_visible_and_holds_nothing_up(scene: Scene, start: Start) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-jobs", "namespace": scene.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    scene.kube.apply(quota)
    operator = start()
    scene.apply(**SPEC)
    _, job = scene.run(inflight=None, services=services(job=WORK, compacting=WORK.compaction))
    with job:
        said = scene.await_condition("ServicesHealthy", "False", "JobRefused")
        assert "no-jobs" in said["message"]
        scene.await_condition("Ready", "True")
        scene.await_event("JobRefused")
        assert len(scene.pods()) == 1
        scene.kube.kubectl("delete", "resourcequota", "no-jobs", "-n", scene.namespace)
        operator.kill()  # the next one tries at once
        operator.start()
        await_rounds(scene, "3/1")
        scene.await_condition("ServicesHealthy", "True", "Compacting")
