"""What one tenant's pipelines do costs another tenant's nothing: turns, restarts, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from support.cluster.kube import Kube, condition, wait_for
from support.operator import few_workers
from support.operator.hostile import HostileDriver
from support.operator.process import OperatorProcess
from support.operator.scene import POD_SECURITY, Scene, Start


@pytest.fixture
def tenant(kube: Kube, scene: Scene) -> Scene:
    """The namespace of another tenant."""
    found = replace(scene, namespace=f"{scene.namespace}-other", paths={})
    labels = {POD_SECURITY: "restricted"}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace, "labels": labels}})
    return found


@pytest.fixture
def few_workers_run(scene: Scene, tenant: Scene, tmp_path: Path) -> Iterator[None]:
    """An operator with few workers for both tenants, which waits for ever for an answer."""
    where = ["--namespace", scene.namespace, "--namespace", tenant.namespace]
    where += ["--leader-election-namespace", scene.namespace]
    log = tmp_path / "few.log"
    operator = OperatorProcess(scene.kube.kubeconfig, log, *where, module=few_workers.__name__)
    operator.start()
    yield
    operator.kill()


def silent_drivers(tenant: Scene, count: int) -> HostileDriver:
    """So many pipelines whose drivers take a connection and never answer; all have one address."""
    names = [f"silent-{number}" for number in range(count)]
    tenant.kube.apply(*map(tenant.manifest, names))
    ip = tenant.address()
    for name in names:
        tenant.node.run(tenant.namespace, tenant.driver(name=name), ip)
    return HostileDriver(ip, None, name="silent", namespace=tenant.namespace)


@pytest.mark.usefixtures("few_workers_run")
def test_a_lost_driver_is_replaced_while_all_pollers_wait_for_drivers_of_another_tenant_for_ever(
    scene: Scene, tenant: Scene
) -> None:
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
    with silent_drivers(tenant, 2 * few_workers.WORKERS) as silent:
        wait_for(lambda: silent.times >= few_workers.WORKERS, within=60, description="all pollers wait")
        scene.node.remove(scene.namespace, pod)
        scene.driver(2)
        assert silent.times == few_workers.WORKERS, "nobody has waited in vain, and asked the next one"


def test_one_tenants_restarts_that_are_never_ready_leave_slots_to_another(
    scene: Scene, tenant: Scene, start: Start
) -> None:
    start("operator", None, "--namespace", tenant.namespace, "--max-restarts", "2")
    names = ("one", "two", "three")
    with ExitStack() as stack:
        pods = {}
        for name in names:
            tenant.apply(name)
            pods[name], job = tenant.run(name=name, inflight=None)
            stack.enter_context(job)
        scene.apply()
        pod, job = scene.run(inflight=None)
        stack.enter_context(job)
        for name in names:
            tenant.await_condition("Ready", "True", name=name)
        scene.await_condition("Ready", "True")
        tenant.kube.kubectl("annotate", "bi", "--all", "-n", tenant.namespace, "bucketingest.dev/restart=1")
        (stopped,) = wait_for(lambda: stopping(tenant, names), within=60, description="one is stopped")
        tenant.node.remove(tenant.namespace, pods[stopped])
        tenant.driver(2, stopped)  # it never runs
        scene.kube.kubectl("annotate", "bi", "orders", "-n", scene.namespace, "bucketingest.dev/restart=1")
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
        _, job = scene.run(2, inflight=None)
        stack.enter_context(job)
        scene.await_condition("Ready", "True")
        assert stopping(tenant, names) == []
        for name in set(names) - {stopped}:
            assert tenant.resource(name)["status"]["attempt"] == 1


def stopping(scene: Scene, names: tuple[str, ...]) -> list[str]:
    """Of whom a driver is being deleted."""
    return [name for name in names if any("deletionTimestamp" in pod["metadata"] for pod in scene.pods(name))]


def test_a_forged_commit_keeps_no_table_from_another_tenant_and_only_administrators_see_both_names(
    scene: Scene, tenant: Scene, start: Start
) -> None:
    """The squatter is older, has committed, as its driver says, and is at work while the other one is suspended."""
    operator = start("operator", None, "--namespace", tenant.namespace)
    path = f"s3://lake/{scene.namespace}/orders"
    tenant.paths["squat"] = scene.paths["orders"] = path
    tenant.apply("squat")
    with ExitStack() as stack:
        _, squatter = tenant.run(name="squat", inflight=None)
        stack.enter_context(squatter)
        tenant.await_condition("Ready", "True", name="squat")
        assert tenant.resource("squat")["status"]["lastCommit"]["instant"]
        scene.apply()
        pod, job = scene.run(inflight=None)
        stack.enter_context(job)
        scene.await_condition("Ready", "True")
        scene.apply(suspend=True)
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
        scene.await_condition("Ready", "True", "Suspended")
        scene.apply(suspend=False)
        _, job = scene.run(2, inflight=None)
        stack.enter_context(job)
        scene.await_condition("Ready", "True")
        assert condition(tenant.resource("squat"), "Ready")["status"] == "True"
        for one, name, other in ((scene, "orders", tenant), (tenant, "squat", scene)):
            whole = re.compile(rf"{other.namespace}(?![\w-])")
            said = json.dumps([one.resource(name)["status"], one.kube.events(one.namespace, name)])
            assert not whole.search(said.replace(path, ""))
            assert "TableTaken" not in said
    (line, *_) = operator.lines("several namespaces name one table")
    assert {f"{line['namespace']}/{line['name']}", *line["others"]} == {
        f"{scene.namespace}/orders",
        f"{tenant.namespace}/squat",
    }
