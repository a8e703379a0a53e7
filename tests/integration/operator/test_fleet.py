"""Many pipelines in one cluster: a definition newer than the operator, and restarts of all of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.spec.crd import custom_resource_definition
from bucketingest.spec.job_report import TerminationReport
from support.cluster.kube import Kube, condition, wait_for
from support.operator.observations import termination
from support.operator.outage import Outage
from support.operator.played import PlayedJob
from support.operator.scene import Scene, Start

NAMES = ("one", "two", "three")


@pytest.fixture
def newer_definition(kube: Kube) -> Iterator[None]:
    """The definition of a later version: fields with defaults, in the spec and deeper."""
    now = custom_resource_definition()
    later = copy.deepcopy(now)
    spec = later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    field = {"type": "string", "maxLength": 10, "default": "later"}
    spec["properties"]["later"] = field
    commit = spec["properties"]["commit"]
    commit["properties"]["later"] = field
    commit["default"]["later"] = "later"
    kube.apply(later)
    yield
    kube.apply(now)


@pytest.fixture
def older_definition(kube: Kube) -> Iterator[None]:
    """The definition before a changed spec was checked and on probation: the API server drops what it does not know."""
    now = custom_resource_definition()
    older = copy.deepcopy(now)
    properties = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        del properties[part]["properties"]["upgrade"]
    kube.apply(older)
    yield
    kube.apply(now)


@pytest.mark.usefixtures("older_definition")
def test_with_an_older_definition_a_changed_spec_still_reaches_its_driver(scene: Scene, start: Start) -> None:
    operator = start()
    table = {"path": f"s3://lake/{scene.namespace}/orders", "recordKey": ["value"]}
    scene.kube.create(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "orders", "namespace": scene.namespace},
            "spec": {"source": {"rate": {"rowsPerSecond": 10}}, "table": table},
        }
    )
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        assert "upgrade" not in scene.resource()["status"]
        scene.kube.patch(scene.namespace, "orders", {"spec": {"commit": {"interval": "45s"}}})
        scene.await_terminating(pod)
        scene.node.remove(scene.namespace, pod)
    _, job = scene.run(2, inflight=None)
    with job:
        scene.await_condition("Ready", "True")
    assert operator.metric("bucketingest_operator_reconcile_errors_total") == 0


def test_a_newer_definition_neither_restarts_nor_orphans_a_driver_of_an_older_operator(
    scene: Scene, start: Start, request: pytest.FixtureRequest
) -> None:
    operator = start()
    scene.apply()
    pod, job = scene.run(inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        request.getfixturevalue("newer_definition")
        operator.end()
        operator.start()
        spec = scene.resource()["spec"]
        assert (spec["later"], spec["commit"]["later"]) == ("later", "later")
        # an edit of what no driver reads: the whole spec is read again
        scene.apply(slo={"commitLatency": "90s"})
        wait_for(
            lambda: scene.resource()["status"]["observedGeneration"] == scene.resource()["metadata"]["generation"],
            within=60,
            description="the new generation is observed",
            state=scene.state,
        )
        scene.await_event("UnknownFields")
        assert condition(scene.resource(), "Stalled")["status"] == "False"
        assert [each["metadata"]["name"] for each in scene.pods()] == [pod]
        assert "deletionTimestamp" not in scene.pods()[0]["metadata"]
        scene.node.remove(scene.namespace, pod)
    second = scene.driver(2)
    settings = scene.kube.kubectl(
        "get", "configmap", second.removesuffix("-driver"), "-n", scene.namespace, "-o", "yaml"
    )
    assert "later" not in yaml.safe_load(settings)["data"]["bucketingest.yaml"]


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_of_many_pipelines_that_must_restart_only_so_many_do_at_once(
    kube: Kube, scene: Scene, start: Start, tmp_path: Path, delay: float
) -> None:
    jobs = {}
    scene.within = 90
    with ExitStack() as stack:
        way = stack.enter_context(Outage(kube.kubeconfig, tmp_path))
        way.delay = delay
        operator = start("operator", way.kubeconfig, "--max-restarts", "1")
        for name in NAMES:
            scene.apply(name)
            jobs[name] = scene.run(name=name, inflight=None)
            stack.enter_context(jobs[name][1])
        for name in NAMES:
            scene.await_condition("Ready", "True", name=name)
        scene.kube.kubectl("annotate", "bi", "--all", "-n", scene.namespace, "bucketingest.dev/restart=1")

        def stopping() -> list[str]:
            pods = [pod for name in NAMES for pod in scene.pods(name)]
            return [
                each["metadata"]["labels"]["app.kubernetes.io/instance"]
                for each in pods
                if "deletionTimestamp" in each["metadata"]
            ]

        for count in range(len(NAMES)):
            (name,) = wait_for(stopping, within=60, description="one is stopped", state=operator.log_text)
            for other in set(NAMES) - {name}:
                assert condition(scene.resource(other), "Ready")["status"] == "True", (count, other)
            waiting = [
                other
                for other in NAMES
                if condition(scene.resource(other), "Reconciling")["reason"] == "RestartWaiting"
            ]
            assert name not in waiting
            scene.node.remove(scene.namespace, jobs[name][0])
            _, job = scene.run(2, name, inflight=None)
            stack.enter_context(job)
            scene.await_condition("Ready", "True", name=name)
        assert [scene.resource(name)["status"]["attempt"] for name in NAMES] == [2, 2, 2]


CHECKED = {"upgrade": {"preflight": True}}
PASSED = termination(0, error_class="Completed")


class Fleet:
    """The pipelines, whose drivers are played; all run, and have committed."""

    def __init__(self, scene: Scene, stack: ExitStack) -> None:
        self.scene = scene
        self._stack = stack
        self.pods: dict[str, str] = {}
        self.jobs: dict[str, PlayedJob] = {}
        for name in NAMES:
            scene.apply(name, **CHECKED)
        for name in NAMES:
            self.run(name)
        for name in NAMES:
            scene.await_condition("Ready", "True", name=name)
        wait_for(lambda: {*map(self.proven, NAMES)} == {1}, within=60, description="all have proven their specs")

    def run(self, name: str, attempt: int = 1, **changes: Any) -> None:
        """The driver of an attempt runs, and does well."""
        self.pods[name], self.jobs[name] = self.scene.run(attempt, name, inflight=None, **changes)
        self._stack.enter_context(self.jobs[name])

    def proven(self, name: str) -> int | None:
        """The attempt that has committed."""
        upgrade = self.scene.resource(name)["status"].get("upgrade") or {}
        return upgrade.get("attempt")

    def images(self) -> dict[str, str]:
        """Of the drivers that may run."""
        pods = {name: self.scene.pods(name) for name in NAMES}
        return {
            name: pod["spec"]["containers"][0]["image"]
            for name, found in pods.items()
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    def checked(self) -> list[str]:
        """Whose changed spec has a Job that checks it."""
        role = "bucketingest.dev/role=preflight"
        found = json.loads(
            self.scene.kube.kubectl("get", "jobs", "-n", self.scene.namespace, "-l", role, "-o", "json")
        )["items"]
        there = [each["metadata"] for each in found if "deletionTimestamp" not in each["metadata"]]
        return sorted(each["labels"]["app.kubernetes.io/instance"] for each in there)

    def await_check(self) -> str:
        """The pipeline whose spec is being checked, alone."""
        (name,) = wait_for(self.checked, within=60, description="one is checked", state=self.state)
        return name

    def check_waiting(self, *names: str) -> None:
        """These wait for their turn: they are not being checked, and their time has not begun."""
        assert set(self.checked()).isdisjoint(names)
        for name in names:
            assert "preflight" not in self.scene.resource(name)["status"]["upgrade"]
            *_, pod = self.scene.pods(name)
            assert pod["metadata"]["name"] == self.pods[name]
            assert "deletionTimestamp" not in pod["metadata"]

    def end_check(self, name: str, report: TerminationReport) -> None:
        """The pod of a check ends."""
        scene = self.scene
        (pod,) = wait_for(lambda: scene.pods(name, "preflight"), within=60, description="its pod", state=self.state)
        scene.node.bind(scene.namespace, pod["metadata"]["name"])
        scene.node.end(scene.namespace, pod["metadata"]["name"], report.exit_code, report)

    def await_stop(self, name: str) -> None:
        """Its driver is stopped."""
        wait_for(
            lambda: any("deletionTimestamp" in each["metadata"] for each in self.scene.pods(name)),
            within=60,
            description=f"the driver of {name} is stopped",
            state=self.state,
        )

    def replace(self, name: str, attempt: int = 2, **changes: Any) -> None:
        """The driver is stopped, and the next one runs."""
        self.await_stop(name)
        self.scene.node.remove(self.scene.namespace, self.pods[name])
        self.run(name, attempt, **changes)

    def state(self) -> str:
        """For a message."""
        return "\n".join(self.scene.state(name) for name in NAMES)


def test_of_many_changed_specs_only_so_many_are_checked_and_their_time_counts_from_their_turn(
    scene: Scene, start: Start
) -> None:
    start("operator", None, "--max-restarts", "1")
    with ExitStack() as stack:
        fleet = Fleet(scene, stack)
        for name in NAMES:
            scene.apply(name, **CHECKED, commit={"interval": "45s"})
        left = set(NAMES)
        while left:
            name = fleet.await_check()
            left.remove(name)
            fleet.check_waiting(*left)
            assert fleet.checked() == [name]
            fleet.end_check(name, PASSED)
            fleet.await_stop(name)
            fleet.check_waiting(*left)
            assert set(fleet.checked()) <= {name}, "the check and the restart have one turn"
            fleet.replace(name)
            scene.await_condition("Ready", "True", name=name)


def test_another_default_image_comes_to_one_pipeline_first_which_goes_back_if_it_does_not_work(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    settings = tmp_path / "job.yaml"
    settings.write_text("image: job:1")
    operator = start("operator", None, "--job-settings", str(settings))
    with ExitStack() as stack:
        fleet = Fleet(scene, stack)
        assert fleet.images() == dict.fromkeys(NAMES, "job:1")
        operator.end()
        settings.write_text("image: job:2")
        operator.start()
        first = fleet.await_check()
        fleet.check_waiting(*set(NAMES) - {first})
        assert fleet.images() == dict.fromkeys(NAMES, "job:1")
        fleet.end_check(first, PASSED)
        # It is ready, and has not written anything yet: the others wait.
        fleet.replace(first, last_commit=None, commits=0)
        scene.await_condition("Ready", "True", name=first)
        fleet.check_waiting(*set(NAMES) - {first})
        assert fleet.checked() == []
        assert fleet.images() == dict.fromkeys(NAMES, "job:1") | {first: "job:2"}
        refused = termination(2, "There is no Python in this image.")
        scene.node.end(scene.namespace, fleet.pods[first], 2, refused)
        fleet.run(first, 3)
        said = scene.await_condition("Degraded", "True", "SpecNotProven", name=first)
        assert "no Python" in said["message"]
        assert fleet.images() == dict.fromkeys(NAMES, "job:1")
        # A right one: the first that commits with it ends the wait of the others.
        operator.end()
        settings.write_text("image: job:3")
        operator.start()
        first = fleet.await_check()
        others = set(NAMES) - {first}
        fleet.check_waiting(*others)
        fleet.end_check(first, PASSED)
        last = scene.resource(first)["status"]["attempt"]
        fleet.replace(first, last + 1)
        wait_for(lambda: set(fleet.checked()) >= others, within=60, description="all are checked", state=fleet.state)
        assert fleet.images() == dict.fromkeys(NAMES, "job:1") | {first: "job:3"}
