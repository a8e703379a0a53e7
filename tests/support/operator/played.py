"""Plays what a control plane lacks: a node on which pods run, and their jobs, which answer over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from bucketingest.spec.job_report import ProgressReport, TerminationReport
from bucketingest_operator.manifests.pod_specs import HTTP_PORT
from support.http_fake import FakeHandler, FakeServer

NODE = "played-1"
Manifest = dict[str, Any]


class PlayedNode:
    """A Node object, and the statuses of pods that a kubelet would write."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._core: Any = client.CoreV1Api(self._client)  # it takes dictionaries, and is typed for its own classes
        self.has_mesh = False
        """Whether each pod has another container, which goes on when that of the job has ended."""

    def appear(self, name: str = NODE) -> None:
        """The node joins the cluster."""
        try:
            self._core.create_node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        except ApiException as error:
            if error.status != 409:
                raise

    def vanish(self, name: str) -> None:
        """The node leaves the cluster; its pods stay as they are."""
        self._core.delete_node(name)

    def bind(self, namespace: str, pod: str, node: str = NODE) -> None:
        """Assign a pod to a node, like the scheduler."""
        body = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self._core.create_namespaced_binding(namespace, body, _preload_content=False)

    def run(self, namespace: str, pod: str, ip: str, node: str = NODE) -> None:
        """The containers of a pod run, and it has an address."""
        self.bind(namespace, pod, node)
        self.set_status(
            namespace,
            pod,
            {
                "phase": "Running",
                "podIP": ip,
                "podIPs": [{"ip": ip}],
                "containerStatuses": self._containers(namespace, pod, {"running": {"startedAt": _now()}}),
            },
        )

    def end(self, namespace: str, pod: str, code: int, report: TerminationReport | None = None, **fields: Any) -> None:
        """The containers of a pod have ended."""
        message = {} if report is None else {"message": report.model_dump_json(by_alias=True)}
        state = {"terminated": {"exitCode": code, "startedAt": _now(), "finishedAt": _now(), **message, **fields}}
        self.set_status(
            namespace,
            pod,
            {
                "phase": "Running" if self.has_mesh else "Failed" if code else "Succeeded",
                "containerStatuses": self._containers(namespace, pod, state),
            },
        )

    def remove(self, namespace: str, pod: str) -> None:
        """A terminating pod has ended, and its node removes it."""
        self._core.delete_namespaced_pod(pod, namespace, grace_period_seconds=0)

    def set_status(self, namespace: str, pod: str, status: Manifest) -> None:
        """Write what a kubelet found."""
        self._core.patch_namespaced_pod_status(pod, namespace, {"status": status})

    def _containers(self, namespace: str, pod: str, state: Manifest) -> list[Manifest]:
        """The job's container in a state, and the others."""
        name = str(self._core.read_namespaced_pod(pod, namespace).spec.containers[0].name)
        others = [_container("mesh", {"running": {"startedAt": _now()}})] if self.has_mesh else []
        return [_container(name, state), *others]


class PlayedJob(FakeServer):
    """A job that answers `/progress` with what a test wants. A context manager."""

    def __init__(self, ip: str, report: ProgressReport) -> None:
        self.report = report
        self.silent = False
        outer = self

        class Handler(FakeHandler):
            def do_GET(self) -> None:
                body = outer.report.model_dump_json(by_alias=True).encode()
                self.answer(503 if outer.silent else 200, body)

        super().__init__(Handler, ip, HTTP_PORT)


def _container(name: str, state: Manifest) -> Manifest:
    return {
        "name": name,
        "state": state,
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "image": "played",
        "imageID": "",
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
