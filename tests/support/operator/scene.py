"""One namespace with BucketIngests, with the checks and actions of operator tests."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from bucketingest.spec.job_report import InflightReport, ProgressReport
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.spark_conf import TEMPLATE_FILE
from support.cluster.kube import Kube, Manifest, condition, outline, wait_for
from support.operator.observations import report
from support.operator.played import PlayedJob, PlayedNode
from support.operator.process import OperatorProcess

FINALIZER = "bucketingest.dev/driver"
POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the standard that its pods must meet."""
Start = Callable[..., OperatorProcess]
STUCK = InflightReport(instant="20261121115950000", age_seconds=3600)

_PROCESS = 100 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Tests run in several processes, and all drivers have the same port: each process has addresses of its own."""
_addresses = itertools.count(2)


@dataclass
class Scene:
    """A namespace."""

    kube: Kube
    node: PlayedNode
    namespace: str
    within: float = 40.0
    """Seconds to wait for anything; a test sets more if the operator itself waits longer."""
    paths: dict[str, str] = field(default_factory=dict)

    def apply(self, name: str = "orders", **spec: Any) -> None:
        """Create or change a BucketIngest."""
        self.kube.apply(self.manifest(name, **spec))

    def manifest(self, name: str = "orders", **spec: Any) -> Manifest:
        """A BucketIngest of this namespace."""
        path = self.paths.setdefault(name, f"s3://lake/{self.namespace}/{name}")
        table = {"path": path, "recordKey": ["value"]}
        # A changed spec starts at once, unless the test plays its preflight.
        upgrade = {"preflight": False, **spec.pop("upgrade", {})}
        document = {"source": {"rate": {"rowsPerSecond": 10}}, "table": table, "upgrade": upgrade, **spec}
        return {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": document,
        }

    def address(self) -> str:
        """An address for a driver pod that no other one has."""
        return f"127.77.{_PROCESS}.{next(_addresses)}"

    def enforce(self, standard: str) -> None:
        """The namespace takes pods of another Pod Security Standard."""
        self.kube.kubectl("label", "namespace", self.namespace, f"{POD_SECURITY}={standard}", "--overwrite")

    def resource(self, name: str = "orders") -> Manifest:
        """The BucketIngest."""
        found = self.kube.resource(self.namespace, name)
        assert found is not None
        return found

    def pods(self, name: str = "orders", role: str = "driver") -> list[Manifest]:
        """Pods of a BucketIngest."""
        labels = {"app.kubernetes.io/instance": name, "bucketingest.dev/role": role}
        return self.kube.pods(self.namespace, labels)

    def driver(self, attempt: int = 1, name: str = "orders", within: float | None = None) -> str:
        """Wait for the driver pod of an attempt; its name."""

        def find() -> str:
            label = "bucketingest.dev/attempt"
            names = [
                str(pod["metadata"]["name"])
                for pod in self.pods(name)
                if pod["metadata"]["labels"][label] == str(attempt)
            ]
            return names[0] if names else ""

        description = f"a driver pod of attempt {attempt} of {name}"
        return wait_for(find, within=within or self.within, description=description, state=lambda: self.state(name))

    def given(self, attempt: int, name: str = "orders", file: str = "bucketingest.yaml") -> str:
        """The spec in the ConfigMap of an attempt, or another of its files."""
        uid = self.resource(name)["metadata"]["uid"]
        found = self.kube.kubectl(
            "get", "configmap", Names(name, uid).attempt(attempt), "-n", self.namespace, "-o", "json"
        )
        return str(json.loads(found)["data"][file])

    def add_executor(self, number: int, attempt: int = 1, name: str = "orders") -> None:
        """An executor of an attempt runs, as Spark makes it from the template in the attempt's ConfigMap."""
        pod = yaml.safe_load(self.given(attempt, name, TEMPLATE_FILE))
        (driver,) = (each["metadata"] for each in self.pods(name))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": driver["name"], "uid": driver["uid"], "controller": True}
        own = f"{name}-exec-{number}"
        pod["metadata"].update(name=own, namespace=self.namespace, ownerReferences=[owner])
        self.kube.apply({"apiVersion": "v1", "kind": "Pod", **pod})
        self.node.run(self.namespace, own, self.address())

    def lose(self, attempt: int, name: str = "orders", within: float | None = None) -> None:
        """Remove the driver pod of an attempt, once it is in the status: before, the operator creates it again."""
        pod = self.driver(attempt, name, within)

        def noted() -> bool:
            found = self.kube.resource(self.namespace, name) or {}
            attempts = found.get("status", {}).get("attempts", [])
            return any(each["number"] == attempt and "startedAt" in each for each in attempts)

        description = f"the start of attempt {attempt} is noted"
        wait_for(noted, within=within or self.within, description=description, state=lambda: self.state(name))
        self.node.remove(self.namespace, pod)

    def run(self, attempt: int = 1, name: str = "orders", **changes: Any) -> tuple[str, PlayedJob]:
        """Wait for the driver pod of an attempt, and run a healthy job in it; enter the job as a context."""
        pod = self.driver(attempt, name)
        ip = self.address()
        job = PlayedJob(ip, self.well(name, **changes))
        self.node.run(self.namespace, pod, ip)
        return pod, job

    def well(self, name: str = "orders", **changes: Any) -> ProgressReport:
        """The answer of a healthy job of this namespace."""
        return report(name=name, namespace=self.namespace, pipeline=f"{self.namespace}/{name}", **changes)

    def await_condition(
        self, kind: str, value: str, reason: str | None = None, name: str = "orders", within: float | None = None
    ) -> dict[str, str]:
        """Wait for a condition."""

        def find() -> dict[str, str]:
            found = condition(self.kube.resource(self.namespace, name), kind)
            wanted = found.get("status") == value and reason in {None, found.get("reason")}
            return found if wanted else {}

        description = f"{kind}={value} {reason or ''}"
        return wait_for(find, within=within or self.within, description=description, state=lambda: self.state(name))

    def await_decided(self, name: str) -> None:
        """Wait until the operator has decided anything about a BucketIngest."""
        wait_for(
            lambda: self.resource(name).get("status", {}).get("observedGeneration"),
            within=self.within,
            description=f"{name} is observed",
            state=lambda: self.state(name),
        )

    def await_terminating(self, pod: str) -> None:
        """Wait until a pod is being deleted."""
        wait_for(
            lambda: any(
                each["metadata"]["name"] == pod and "deletionTimestamp" in each["metadata"] for each in self.pods()
            ),
            within=self.within,
            description=f"{pod} is being deleted",
            state=self.state,
        )

    def await_gone(self, name: str = "orders") -> None:
        """Wait until the BucketIngest is gone."""
        wait_for(
            lambda: self.kube.resource(self.namespace, name) is None,
            within=self.within,
            description=f"{name} is gone",
            state=lambda: self.state(name),
        )

    def events(self, name: str = "orders") -> list[str]:
        """Reasons of the events about a BucketIngest."""
        return [str(each["reason"]) for each in self.kube.events(self.namespace, name)]

    def await_event(self, reason: str, name: str = "orders") -> None:
        """Wait for an event about a BucketIngest: it comes after the status that it is about."""
        described = f"event {reason}"
        wait_for(lambda: reason in self.events(name), within=60, description=described, state=lambda: self.state(name))

    def state(self, name: str = "orders") -> str:
        """Resource and pods, for a message."""
        pods = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in self.pods(name)]
        return f"{outline(self.kube.resource(self.namespace, name))}\npods {pods}"
