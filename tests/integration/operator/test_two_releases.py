"""Two releases of the operator that watch one namespace: one acts, the other says why it does not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
import requests
import yaml

from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.kube.watch_claims import WATCH_LEASE
from devcluster.binaries import find_tool
from devcluster.release import CHART
from support.cluster.kube import Kube, Manifest, wait_for
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start


@pytest.fixture
def second(kube: Kube, scene: Scene, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator of a second release: it does not get ready."""
    where = ["--namespace", scene.namespace, "--leader-election-namespace", scene.namespace]
    operator = OperatorProcess(kube.kubeconfig, tmp_path / "second.log", *where, "--leader-election-name", "second")
    yield operator
    if operator.runs:
        operator.kill()


def test_of_two_releases_on_a_namespace_one_acts_and_the_other_follows_it(
    scene: Scene, start: Start, second: OperatorProcess
) -> None:
    first = start("first", None, "--leader-election-name", "first")
    scene.apply("one")
    scene.driver(name="one")
    second.start(wait=False)
    (said, *_) = wait_for(
        lambda: second.lines("another release watches what this one watches"),
        within=60,
        description="the second says why it does nothing",
        state=second.log_text,
    )
    assert f"{scene.namespace} (release {scene.namespace}/first)" in str(said["error"])
    port = second.lines("listening")[-1]["port"]
    assert requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).status_code == 503

    scene.apply("two")
    scene.driver(name="two")
    assert not actions(second)
    assert first.end() == 0
    scene.apply("three")
    scene.driver(name="three", within=60)
    assert actions(second)
    second.wait_until_ready()


def actions(operator: OperatorProcess) -> list[Manifest]:
    return [line for line in operator.lines("decision") if line["plan"]["actions"]]


def test_a_namespace_whose_claim_a_tenant_forges_waits_alone_and_is_named(
    kube: Kube, scene: Scene, tmp_path: Path
) -> None:
    """A tenant with the built-in role `edit` may write Leases."""
    holders = {"like-a-release": "system/theirs", "any-words": "me", "odd": "\x1b[2J" + "x" * 100}
    taken = {f"{scene.namespace}-{name}": holder for name, holder in holders.items()}
    for namespace in taken:
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, editor(namespace))

    def forge() -> None:
        """So late that its 30 s have just begun."""
        for namespace, holder in taken.items():
            text = yaml.safe_dump(claim(namespace, holder, timedelta(0)))
            kube.kubectl("apply", "-f", "-", "--as", TENANT, "-n", namespace, stdin=text)

    forge()
    namespaces = [word for name in (scene.namespace, *taken) for word in ("--namespace", name)]
    where = [*namespaces, "--leader-election-namespace", scene.namespace]
    with OperatorProcess(kube.kubeconfig, tmp_path / "operator.log", *where) as operator:
        for namespace in taken:
            kube.create(replace(scene, namespace=namespace, paths={}).manifest())
        forge()
        scene.apply()
        scene.driver()
        assert [each for each in actions(operator) if each["namespace"] in taken] == []
        assert operator.metric("bucketingest_operator_namespaces_taken") == len(taken)
        assert operator.get("/readyz").status_code == 200
        (said, *_) = operator.lines("another release watches what this one watches")
        assert scene.namespace not in re.findall(r"[\w-]+(?= \(release)", str(said["error"]))
        for namespace, holder in taken.items():
            assert f"{namespace} (release {plain(holder)})" in str(said["error"])
        for namespace in taken:
            kube.kubectl("delete", "lease", WATCH_LEASE, "-n", namespace)
        for namespace in taken:
            replace(scene, namespace=namespace, paths={}).driver(within=60)


TENANT: Final = "tenant"


def editor(namespace: str) -> Manifest:
    """The tenant has the built-in role in his own namespace."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tenant", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": TENANT}],
    }


def test_helm_refuses_a_release_for_a_namespace_that_a_living_one_watches(kube: Kube, scene: Scene) -> None:
    team = f"{scene.namespace}-team"
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    other = f"{team}/other-operator"
    forged = f"{team}/no-operator"
    kube.apply(lease(team, "no-operator", "a-tenant", timedelta(0)))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    kube.apply({**role, "metadata": {"name": f"{team}-other-cluster"}})
    for holder, age, refused in (
        (other, 10, True),
        (other, 90, False),
        (forged, 1, False),
        ("x", 1, False),
        ("", 1, False),
    ):
        kube.apply(claim(scene.namespace, holder, timedelta(seconds=age)))
        done = helm_install(kube, scene.namespace)
        assert bool(done.returncode) == refused, done.stderr
        assert (other in done.stderr) == refused
    own = "system/ours-bucketingest-operator"
    kube.apply(claim(scene.namespace, own, timedelta(0)))
    assert not helm_install(kube, scene.namespace).returncode


def claim(namespace: str, holder: str, age: timedelta) -> Manifest:
    return lease(namespace, WATCH_LEASE, holder, age)


def lease(namespace: str, name: str, holder: str, age: timedelta) -> Manifest:
    renewed = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30, "renewTime": renewed},
    }


def helm_install(kube: Kube, namespace: str) -> subprocess.CompletedProcess[str]:
    """Nothing is installed, but the chart may look at the cluster."""
    where = ["--kubeconfig", str(kube.kubeconfig), "--namespace", "system", "--dry-run=server"]
    values = ["--set", f"operator.watchNamespaces={{{namespace}}}", "--set", "crds.install=false"]
    command = [find_tool("helm"), "install", "ours", str(CHART), *where, *values]
    return subprocess.run(command, capture_output=True, text=True, check=False)
