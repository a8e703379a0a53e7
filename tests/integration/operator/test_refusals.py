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


def with_resources(pod: Manifest, resources: Manifest) -> Manifest:
    return {**pod, "containers": [{**each, "resources": resources} for each in pod["containers"]]}


def pods_with_limit() -> dict[str, Manifest]:
    """The pod of each role, of a pipeline that names a limit of CPU; that of an executor with what Spark adds."""
    audit = {"against": "postgres://auditor@db/shop", "window": {"start": "03:00", "duration": "3h"}}
    limited = {**KAFKA, "audit": audit, "pod": {"cpuLimit": "2"}}
    pods = {role: {**pod, "serviceAccountName": "default"} for role, pod in pod_specs(limited).items()}
    sizes = executor_resources(bucket_ingest(limited), SETTINGS)
    return {**pods, "executor": with_resources(pods["executor"], sizes)}


def creates(scene: Scene, name: str, pod: Manifest) -> None:
    """The API server takes a pod, as far as a dry run says. Raises AssertionError with its words."""
    metadata = {"name": name, "namespace": scene.namespace}
    body: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    scene.kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


def test_a_limit_range_that_wants_all_memory_requested_takes_every_pod(scene: Scene) -> None:
    scene.kube.apply(limits(scene, maxLimitRequestRatio={"memory": "1"}))
    for role, pod in pods_with_limit().items():
        creates(scene, role, pod)
        with pytest.raises(AssertionError, match="memory max limit to request ratio"):
            creates(scene, role, with_resources(pod, HALF))


def test_a_quota_that_wants_limits_takes_every_pod_of_a_pipeline_that_names_one(scene: Scene) -> None:
    scene.kube.apply(quota(scene, limits_cpu="4", limits_memory="100Gi"))
    for role, pod in pods_with_limit().items():
        creates(scene, role, pod)
        with pytest.raises(AssertionError, match=r"must specify limits\.cpu"):
            creates(scene, role, with_resources(pod, HALF))


NEVER: dict[str, tuple[Manifest, str]] = {
    "priority-of-the-system": ({"pod": {"priorityClassName": "system-node-critical"}}, "system-node-critical"),
    "priority-of-the-cluster": ({"pod": {"priorityClassName": "system-cluster-critical"}}, "system-cluster-critical"),
    "every-taint": ({"pod": {"tolerations": [{"operator": "Exists"}]}}, "every taint"),
    "every-taint-of-one-effect": (
        {"pod": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}},
        "every taint",
    ),
    "an-account": ({"pod": {"serviceAccountName": "admin"}}, "job.allowedServiceAccounts"),
}
"""What no BucketIngest gets unless an administrator allows it, and a word of the answer."""
UNLISTED: dict[str, tuple[Manifest, str]] = {
    "another-priority": ({"pod": {"priorityClassName": "high"}}, "job.allowedPriorityClasses"),
    "another-taint": ({"pod": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}, "job.allowedTolerationKeys"),
    "another-path": ({"table": {"path": "s3://lake/theirs/t", "recordKey": ["value"]}}, "job.tableOwners"),
}
"""What it does not get once the settings have lists."""


def test_what_an_administrator_has_not_allowed_makes_no_pod_and_is_named(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    settings = tmp_path / "job.yaml"
    settings.write_text("{}")
    operator = start("operator", None, "--job-settings", str(settings))
    are_refused(scene, NEVER)
    operator.end()
    settings.write_text(
        "allowedPriorityClasses: [low]\nallowedTolerationKeys: [spot]\ntableOwners: {'s3://lake/theirs': [x]}"
    )
    operator.start()
    are_refused(scene, UNLISTED)
    assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0


def are_refused(scene: Scene, forbidden: dict[str, tuple[Manifest, str]]) -> None:
    """Each has its reason in the status, and no pod."""
    scene.kube.apply(*(scene.manifest(name, **spec) for name, (spec, _) in forbidden.items()))
    for name, (_, word) in forbidden.items():
        found = scene.await_condition("Ready", "False", "CreationRefused", name=name)
        assert word in found["message"]
        assert scene.pods(name) == []


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
