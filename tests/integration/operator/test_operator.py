"""The operator with a real API server: what it creates, what it waits for, what it never does."""

from __future__ import annotations

from pathlib import Path

import yaml

from support.cluster.kube import condition, wait_for
from support.operator.observations import termination
from support.operator.scene import FINALIZER, STUCK, Scene, Start


def test_a_resource_gets_its_driver_and_only_our_finalizer(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    pod = scene.driver()
    labels = f"bucketingest.dev/uid={scene.resource()['metadata']['uid']}"
    kinds = "serviceaccount,role,rolebinding,configmap,pod"
    made = scene.kube.kubectl("get", kinds, "-n", scene.namespace, "-l", labels, "-o", "name").split()
    assert len(made) == 5
    metadata = scene.resource()["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    # Only kubectl's annotation: Kopf keeps nothing in the resource.
    assert set(metadata["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    status = scene.resource()["status"]
    assert (status["attempt"], status["attempts"][0]["pod"]) == (1, pod)
    scene.await_event("AttemptStarting")


def test_a_driver_that_answers_appears_in_status_and_metrics(scene: Scene, start: Start) -> None:
    operator = start()
    scene.apply()
    _, job = scene.run()
    with job:
        scene.await_condition("Ready", "True")
        status = scene.resource()["status"]
        assert status["lastCommit"]["instant"] == "20261121115900000"
        assert status["lag"]["offsets"] == 100
        who = {"namespace": scene.namespace, "name": "orders"}
        assert operator.metric("bucketingest_resource_phase", phase="Running", **who) == 1
        assert operator.metric("bucketingest_restarts_total", **who) == 0
        assert operator.metric("bucketingest_operator_leader") == 1
        assert operator.metric("bucketingest_operator_resources") == 1
        assert (operator.metric("bucketingest_operator_actions_total", action="StartAttempt", result="done") or 0) >= 1
        # A new operator knows immediately what the old one knew.
        operator.kill()
        operator.start()
        wait_for(
            lambda: operator.metric("bucketingest_resource_phase", phase="Running", **who) == 1,
            within=60,
            description="the metric after a restart",
            state=operator.log_text,
        )
        assert operator.metric("bucketingest_attempt", **who) == 1


def test_after_a_lost_driver_another_starts_at_once(scene: Scene, start: Start) -> None:
    operator = start()
    scene.apply()
    pod, job = scene.run()
    with job:
        scene.await_condition("Ready", "True")
        scene.node.remove(scene.namespace, pod)
        scene.driver(2)
    wait_for(
        lambda: operator.metric("bucketingest_restarts_total", **{"class": "DriverLost"}) == 1,
        within=60,
        description="the restart is counted",
    )


def test_a_failure_is_reported_and_the_next_attempt_waits(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    pod, job = scene.run()
    with job:
        scene.node.end(scene.namespace, pod, 9, termination(9, "Spark ended the query."))
        found = scene.await_condition("Ready", "False", "QueryFailed")
    assert "Spark ended the query." in found["message"]
    assert len(scene.pods()) == 1
    scene.await_event("QueryFailed")


def test_a_refused_table_stalls_until_a_person_changes_something(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    scene.node.bind(scene.namespace, scene.driver())
    scene.node.end(scene.namespace, scene.driver(), 3, termination(3, "The buckets differ."))
    scene.await_condition("Stalled", "True", "TableRefused")
    scene.kube.patch(scene.namespace, "orders", {"metadata": {"annotations": {"bucketingest.dev/restart": "1"}}})
    scene.driver(2)


def test_another_driver_starts_only_when_a_stuck_one_is_gone_and_rolls_back_itself(scene: Scene, start: Start) -> None:
    operator = start()
    scene.apply()
    pod, job = scene.run(inflight=STUCK)
    with job:
        scene.await_terminating(pod)
        scene.await_condition("Ready", "False", "Stuck")
        # Its process may still run: nothing else may start, in any number of passes.
        passes = "bucketingest_operator_reconcile_seconds_count"
        before = operator.metric(passes) or 0
        wait_for(lambda: (operator.metric(passes) or 0) >= before + 2, within=60, description="two more passes")
        assert len(scene.pods()) == 1
        scene.node.remove(scene.namespace, pod)
    scene.driver(2, within=60)
    assert scene.pods(role="rollback") == []


def test_a_deletion_waits_for_the_driver_and_leaves_nothing(scene: Scene, start: Start) -> None:
    operator = start()
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        scene.kube.delete(scene.namespace, "orders")
        scene.await_terminating(pod)
        assert scene.kube.resource(scene.namespace, "orders") is not None
        scene.node.remove(scene.namespace, pod)
    scene.await_gone()
    wait_for(
        lambda: operator.metric("bucketingest_resource_info") is None,
        within=60,
        description="metrics are deleted with the resource",
    )
    wait_for(
        lambda: (
            not scene.kube.kubectl(
                "get", "configmap,role", "-n", scene.namespace, "-l", "bucketingest.dev/uid", "-o", "name"
            )
        ),
        within=60,
        description="its objects are deleted",
    )


def test_a_driver_on_a_lost_node_does_not_block_a_deletion(scene: Scene, start: Start) -> None:
    start()
    node = f"lost-{scene.namespace}"
    scene.node.appear(node)
    scene.apply(suspend=False)
    pod = scene.driver()
    scene.node.run(scene.namespace, pod, "127.77.1.1", node)
    scene.kube.delete(scene.namespace, "orders")
    scene.await_terminating(pod)
    scene.node.vanish(node)
    scene.await_gone()


def test_a_driver_on_a_node_that_never_reports_holds_up_neither_a_deletion_nor_the_next_driver_for_ever(
    scene: Scene, start: Start
) -> None:
    """The Node object stays, so that Kubernetes waits for its kubelet; `restart.unreachableAfter` ends the wait."""
    start()
    node = f"silent-{scene.namespace}"
    scene.node.appear(node)
    allowed = {"restart": {"unreachableAfter": "1m"}}
    pods = {}
    for name, more in {"deleted": allowed, "replaced": allowed, "waiting": {}}.items():
        scene.apply(name, **more)
        pods[name] = scene.driver(name=name)
        scene.node.run(scene.namespace, pods[name], scene.address(), node)
    # As the eviction from a node that is not reachable, with a shorter time to end.
    scene.kube.kubectl("delete", "pod", *pods.values(), "-n", scene.namespace, "--grace-period=1", "--wait=false")
    scene.kube.delete(scene.namespace, "deleted")
    scene.within = 150
    scene.await_gone("deleted")
    scene.driver(2, "replaced")
    # Its process may still write: without the field nobody takes its place.
    assert [each["metadata"]["name"] for each in scene.pods("waiting")] == [pods["waiting"]]
    assert condition(scene.resource("waiting"), "Ready")["reason"] == "DriverTerminating"


def test_one_table_has_one_driver_and_the_next_starts_when_the_first_is_deleted(scene: Scene, start: Start) -> None:
    start()
    scene.apply("first")
    scene.driver(name="first")
    scene.paths["second"] = scene.paths["first"]
    scene.apply("second")
    found = scene.await_condition("Ready", "False", "TableTaken", name="second")
    assert f"{scene.namespace}/first" in found["message"]
    assert scene.pods("second") == []
    scene.kube.delete(scene.namespace, "first")
    scene.await_gone("first")
    scene.driver(name="second", within=60)


def test_suspend_and_resume(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        scene.apply(suspend=True)
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
        wait_for(lambda: scene.resource()["status"]["phase"] == "Suspended", within=60, description="it is suspended")
        assert scene.pods() == []
        scene.apply(suspend=False)
        scene.driver(2)


def test_a_spec_that_only_the_operator_can_judge_stalls_with_its_reason(scene: Scene, start: Start) -> None:
    start()
    scene.apply(spark={"conf": {"spark.kubernetes.authenticate.driver.serviceAccountName": "admin"}})
    found = scene.await_condition("Stalled", "True", "SpecInvalid")
    assert "serviceAccountName" in found["message"]
    assert scene.pods() == []


def test_a_resource_that_was_there_before_the_operator_is_found(scene: Scene, start: Start) -> None:
    scene.apply()
    start()
    scene.driver()


def test_what_another_writer_changes_in_the_meantime_is_seen(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    _, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        for number in range(20):
            scene.kube.patch(scene.namespace, "orders", {"metadata": {"annotations": {"count": str(number)}}})
            job.report = scene.well(inflight=None, rows=number)
        scene.kube.patch(scene.namespace, "orders", {"metadata": {"annotations": {"bucketingest.dev/pause": "true"}}})
        wait_for(
            lambda: condition(scene.resource(), "Reconciling").get("reason") == "Paused",
            within=60,
            description="it is paused",
            state=scene.state,
        )


def test_no_driver_is_created_in_a_namespace_that_is_being_deleted(scene: Scene, start: Start) -> None:
    start()
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        scene.kube.kubectl("delete", "namespace", scene.namespace, "--wait=false")
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
    scene.await_gone()


def test_pods_that_forge_the_labels_of_a_resource_stop_no_driver(scene: Scene, start: Start) -> None:
    operator = start()
    scene.enforce("privileged")
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        (driver,) = scene.pods()
        # A higher attempt would be adopted, and the real driver deleted as a stray.
        labels = {**driver["metadata"]["labels"], "bucketingest.dev/attempt": "7"}
        forged: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "forged", "namespace": scene.namespace, "labels": labels},
            "spec": {"containers": [{"name": "driver", "image": "any"}]},
        }
        scene.kube.apply(forged)
        passes = "bucketingest_operator_reconcile_seconds_count"
        before = operator.metric(passes) or 0
        scene.kube.patch(scene.namespace, "orders", {"metadata": {"annotations": {"look": "again"}}})
        wait_for(lambda: (operator.metric(passes) or 0) >= before + 2, within=60, description="two more passes")
        (real,) = [each for each in scene.pods() if each["metadata"]["name"] == pod]
        assert "deletionTimestamp" not in real["metadata"]
        assert scene.resource()["status"]["attempt"] == 1
        assert {"DriverAdopted", "StrayDriver"}.isdisjoint(scene.events())


def test_an_account_and_a_role_of_an_earlier_version_get_what_this_one_says_at_the_next_start(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    operator = start()
    scene.apply()
    base = scene.driver().removesuffix("-1-driver")
    operator.end()
    scene.kube.kubectl("patch", "role", base, "-n", scene.namespace, "--type=merge", "-p", '{"rules": []}')
    settings = tmp_path / "job.yaml"
    settings.write_text("serviceAccountAnnotations: {role: new}")
    start("second", None, "--job-settings", str(settings))
    scene.lose(1)
    scene.driver(2)
    account = yaml.safe_load(scene.kube.kubectl("get", "serviceaccount", base, "-n", scene.namespace, "-o", "yaml"))
    assert account["metadata"]["annotations"]["role"] == "new"
    assert account["metadata"]["ownerReferences"][0]["controller"] is True
    role = yaml.safe_load(scene.kube.kubectl("get", "role", base, "-n", scene.namespace, "-o", "yaml"))
    assert role["rules"][0]["resources"] == ["pods"]
