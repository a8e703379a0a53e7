"""Namespaces with limits: what the API server refuses to create appears in the status, and starts once it may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bucketingest_operator.manifests.pod_specs import executor_resources
from support.cluster.kube import Manifest, condition, wait_for
from support.operator.made_objects import KAFKA, SETTINGS, pod_specs
from support.operator.observations import bucket_ingest
from support.operator.scene import STUCK, Scene, Start


def quota(scene: Scene, **hard: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": scene.namespace},
        "spec": {"hard": {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}},
    }


def test_a_driver_that_a_quota_refuses_is_reported_and_starts_with_what_the_quota_demands(
    scene: Scene, start: Start
) -> None:
    operator = start()
    scene.kube.apply(quota(scene, limits_cpu="4"))
    scene.apply()
    found = scene.await_condition("Ready", "False", "CreationRefused")
    assert "limits.cpu" in found["message"]
    assert scene.resource()["status"]["phase"] == "Pending"
    scene.await_event("CreationRefused")
    assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0
    scene.apply(pod={"cpuLimit": "1"})
    wait_for(scene.pods, within=60, description="a driver", state=scene.state)


HALF: Manifest = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}


def limits(scene: Scene, **limit: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "sizes", "namespace": scene.namespace},
        "spec": {"limits": [{"type": "Container", **limit}]},
    }


def test_a_limit_range_that_refuses_the_driver_is_reported_and_one_that_changes_its_pod_restarts_nothing(
    scene: Scene, start: Start
) -> None:
    operator = start()
    scene.kube.apply(limits(scene, max={"memory": "256Mi"}))
    scene.apply()
    found = scene.await_condition("Ready", "False", "CreationRefused")
    assert "maximum memory usage per Container is 256Mi" in found["message"]
    scene.await_event("CreationRefused")
    # a default that no driver can live with makes the pod invalid: other words, the same answer
    scene.kube.apply(limits(scene, default={"cpu": "10m"}))
    scene.apply(slo={"commitLatency": "90s"})
    wait_for(
        lambda: "must be less than or equal to cpu limit" in condition(scene.resource(), "Ready")["message"],
        within=60,
        description="the new reason",
        state=scene.state,
    )
    scene.kube.apply(limits(scene, default={"cpu": "2"}, defaultRequest={"ephemeral-storage": "1Mi"}))
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        (driver,) = scene.pods()
        assert driver["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"
        operator.kill()  # the next one finds a pod that is not as it would make it
        operator.start()
        wait_for(lambda: operator.metric("bucketingest_attempt") == 1, within=60, description="it acts")
        assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
        assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0


def test_a_limit_range_that_wants_all_memory_requested_takes_every_pod(scene: Scene) -> None:
    scene.kube.apply(limits(scene, maxLimitRequestRatio={"memory": "1"}))
    for role, spec in pod_specs().items():
        pod = {**spec, "serviceAccountName": "default"}
        if role == "executor":
            pod["containers"] = [
                {**spec["containers"][0], "resources": executor_resources(bucket_ingest(KAFKA), SETTINGS)}
            ]
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": role, "namespace": scene.namespace},
            "spec": pod,
        }
        scene.kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
        body["spec"]["containers"] = [{**each, "resources": HALF} for each in pod["containers"]]
        with pytest.raises(AssertionError, match="memory max limit to request ratio"):
            scene.kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


def test_a_deletion_ends_although_the_rollback_job_is_refused(scene: Scene, start: Start) -> None:
    start()
    scene.kube.apply(quota(scene, count__jobs_batch="0"))
    scene.apply()
    pod, job = scene.run(inflight=STUCK)
    with job:
        scene.await_terminating(pod)
        scene.kube.delete(scene.namespace, "orders")
        scene.node.remove(scene.namespace, pod)
    scene.await_gone()
    scene.await_event("RollbackFailed")


def test_executors_that_a_quota_refuses_are_named_and_the_driver_stays(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    with scene.run(last_commit=None, running_seconds=30_000.0)[1]:
        scene.kube.apply(quota(scene, requests_memory="1Gi"))
        scene.within = 120  # a new driver gets half a minute for its first executors
        found = scene.await_condition("Ready", "False", "NoExecutors")
        assert "requests.memory" in found["message"]
        assert scene.resource()["status"]["attempt"] == 1
        scene.await_event("NoExecutors")
        assert "deletionTimestamp" not in scene.pods()[0]["metadata"]


def test_pods_that_the_pod_security_standard_refuses_are_named_and_start_once_they_may(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    settings = tmp_path / "job.yaml"
    volume = "{name: tables, hostPath: {path: /srv}}"
    settings.write_text(f"allowHostPath: true\nvolumes: [{volume}]\n")
    operator = start("operator", None, "--job-settings", str(settings))
    scene.apply()
    found = scene.await_condition("Ready", "False", "CreationRefused")
    assert "violates PodSecurity" in found["message"]
    assert "hostPath" in found["message"]
    scene.await_event("CreationRefused")
    assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0
    scene.enforce("privileged")
    scene.driver(within=60)


def test_a_policy_that_refuses_pods_is_named(scene: Scene, start: Start) -> None:
    start()
    scene.enforce("privileged")  # of two refusals one is named
    policy: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"owners-{scene.namespace}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ],
            },
            "validations": [{"expression": "has(object.metadata.labels.team)", "message": "pods need a team"}],
        },
    }
    binding = {
        "apiVersion": policy["apiVersion"],
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": policy["metadata"],
        "spec": {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]},
    }
    scene.kube.apply(policy, binding)
    try:
        wait_for(lambda: _is_refused(scene), within=40, description="the policy is in force")
        scene.apply()
        found = scene.await_condition("Ready", "False", "CreationRefused")
        assert "pods need a team" in found["message"]
    finally:
        scene.kube.kubectl(
            "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", policy["metadata"]["name"]
        )


def _is_refused(scene: Scene) -> bool:
    """Whether a pod without labels is refused: a policy counts a moment after it was made."""
    try:
        scene.kube.kubectl("run", "any", "--image=any", "--dry-run=server", "-n", scene.namespace)
    except AssertionError as error:
        return "pods need a team" in str(error)
    return False


@pytest.mark.parametrize(("first", "then"), [("keep", "deadLetter"), ("deadLetter", "keep"), (None, "keep")])
def test_the_api_server_refuses_another_unavailable(scene: Scene, first: str | None, then: str) -> None:
    def apply(unavailable: str | None, **more: Any) -> None:
        envelope = {"type": "debezium"} if unavailable is None else {"type": "debezium", "unavailable": unavailable}
        scene.apply(
            suspend=True,
            source={"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}},
            format={"type": "json", "schema": "value BIGINT", "envelope": envelope},
            table={"path": f"s3://lake/{scene.namespace}/t", "recordKey": ["value"], "index": {"type": "state"}},
            **more,
        )

    apply(first)
    with pytest.raises(AssertionError, match=r"format\.envelope\.unavailable is immutable"):
        apply(then)
    apply(first, commit={"interval": "20s"})
    assert scene.resource()["spec"]["format"]["envelope"]["unavailable"] == (first or "deadLetter")
