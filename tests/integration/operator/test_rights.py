"""The operator needs only its listed rights: a resource's whole life with them, and nothing is denied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from bucketingest.spec.job_report import InflightReport
from support.cluster import rights
from support.cluster.kube import Kube, wait_for
from support.operator.observations import termination
from support.operator.process import OperatorProcess
from support.operator.scene import Scene

ACCOUNT = "operator"
RBAC = "rbac.authorization.k8s.io"


def role(kind: str, name: str, namespace: str | None, rules: tuple[rights.Rule, ...]) -> dict[str, Any]:
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def bound(made: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{made['kind']}Binding",
        "metadata": made["metadata"],
        "roleRef": {"apiGroup": RBAC, "kind": made["kind"], "name": made["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }


def kubeconfig_of_account(
    kube: Kube, namespace: str, folder: Path, rules: tuple[rights.Rule, ...] = rights.NAMESPACED
) -> Path:
    """A kubeconfig with only the operator's rights."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}}
    roles = [
        role("Role", "operator", namespace, (*rules, *rights.LEASE, *rights.WATCH)),
        role("ClusterRole", f"operator-{namespace}", None, rights.CLUSTER),
    ]
    kube.apply(account, *roles, *(bound(each, namespace) for each in roles))
    token = kube.kubectl("create", "token", ACCOUNT, "-n", namespace).strip()
    content = yaml.safe_load(kube.kubeconfig.read_text(encoding="utf-8"))
    content["users"] = [{"name": content["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_a_resources_whole_life_needs_no_other_rights(
    kube: Kube, scene: Scene, start: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    operator = start(kubeconfig=kubeconfig_of_account(kube, scene.namespace, tmp_path))
    scene.apply()
    # Without a commit: else its spec would be kept.
    pod, job = scene.run(commits=0, inflight=InflightReport(instant="20261121115950000", age_seconds=3600))
    with job:
        scene.await_condition("Ready", "False", "Stuck")
        scene.await_terminating(pod)
        scene.kube.patch(scene.namespace, "orders", {"spec": {"suspend": True}})
        scene.node.remove(scene.namespace, pod)
    rollback = wait_for(lambda: scene.pods(role="rollback"), within=60, description="a rollback", state=scene.state)
    name = rollback[0]["metadata"]["name"]
    scene.node.bind(scene.namespace, name)
    scene.node.end(scene.namespace, name, 0, termination(0, error_class="Ok"))
    scene.kube.patch(scene.namespace, "orders", {"spec": {"suspend": False}})
    # Attempts 2 to 4 are lost, so that the objects of attempt 1 are deleted.
    for attempt in (2, 3):
        scene.lose(attempt, within=60)
        scene.await_condition("Ready", "False", "DriverLost", within=60)
        scene.kube.patch(
            scene.namespace, "orders", {"metadata": {"annotations": {"bucketingest.dev/restart": str(attempt)}}}
        )
    node = f"lost-{scene.namespace}"
    scene.node.appear(node)
    last = scene.driver(4, within=60)
    wait_for(
        lambda: "-1\n" not in kube.kubectl("get", "configmap", "-n", scene.namespace, "-o", "name"),
        within=60,
        description="the objects of the first attempt are deleted",
    )
    scene.node.run(scene.namespace, last, "127.77.2.1", node)
    scene.kube.delete(scene.namespace, "orders")
    scene.await_terminating(last)
    scene.node.vanish(node)
    scene.await_gone()
    assert operator.end() == 0
    text = "\n".join(str(line.get("error", "")) for line in operator.lines())
    assert "forbidden" not in text.lower(), text
    assert [line for line in operator.lines() if "nodes cannot be read" in str(line.get("event"))] == []


def test_an_operator_that_cannot_watch_exits(kube: Kube, scene: Scene, tmp_path: Path) -> None:
    blind = tuple(
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "watch"]}
        if "bucketingests" in rule["resources"]
        else rule
        for rule in rights.NAMESPACED
    )
    where = ["--namespace", scene.namespace, "--leader-election-namespace", scene.namespace]
    kubeconfig = kubeconfig_of_account(kube, scene.namespace, tmp_path, blind)
    operator = OperatorProcess(kubeconfig, tmp_path / "blind.log", *where)
    operator.start(wait=False)
    wait_for(lambda: not operator.runs, within=60, description="it ends", state=operator.log_text)
    assert operator.exit_code == 1
    assert operator.lines("the operator has failed")
