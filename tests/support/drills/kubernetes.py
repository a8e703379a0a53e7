"""What kubectl reads and changes of a watched pipeline: as little of an API server as the pages' commands need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yaml

from bucketingest_operator.observation import PodState
from support.drills.watched import WatchedPipeline
from support.http_fake import FakeHandler, FakeServer
from support.operator.observations import UID

Object = dict[str, Any]
NAMESPACE: Final = "ingest"
NAME: Final = "orders"
OPERATORS: Final = "bucketingest"
"""Namespace of the operator."""
_GROUPS: Final = {
    "bucketingest.dev/v1alpha1": {"bucketingests": "BucketIngest"},
    "v1": {"pods": "Pod", "events": "Event", "nodes": "Node"},
    "batch/v1": {"jobs": "Job"},
    "apps/v1": {"deployments": "Deployment"},
    "coordination.k8s.io/v1": {"leases": "Lease"},
    "authorization.k8s.io/v1": {"selfsubjectaccessreviews": "SelfSubjectAccessReview"},
}
_SHORT: Final = {"bucketingests": ["bi"], "pods": ["po"]}
_CLUSTER_WIDE: Final = frozenset({"nodes", "selfsubjectaccessreviews"})
_PHASES: Final = {PodState.PENDING: "Pending", PodState.RUNNING: "Running", PodState.FAILED: "Failed"}
_OPERATOR: Final = {"app.kubernetes.io/name": "bucketingest-operator"}


def _meta(name: str, namespace: str | None, labels: dict[str, str] | None = None) -> Object:
    found: Object = {"name": name, "uid": UID, "labels": labels or {}, "creationTimestamp": "2026-11-21T12:00:00Z"}
    return found if namespace is None else {**found, "namespace": namespace}


class DrillApi:
    """One pipeline's objects as documents."""

    def __init__(self, pipeline: WatchedPipeline) -> None:
        self._pipeline = pipeline

    def answer(self, method: str, path: str, parameters: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body."""
        parts = path.strip("/").split("/")
        if path == "/api":
            return _json({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(each) for each in _groups()]})
        version = "v1" if parts[0] == "api" else "/".join(parts[1:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if version not in _GROUPS:
            return _refusal(path)
        if not rest:
            return _json(_resources(version))
        namespace = rest.pop(1) if rest[0] == "namespaces" and len(rest) > 1 else None
        if namespace is not None:
            rest.pop(0)
        plural, kind = rest[0], _GROUPS[version][rest[0]]
        if method == "POST":
            return _json({"apiVersion": version, "kind": kind, "status": {"allowed": True}}, 201)
        if method == "PATCH" and plural == "bucketingests":
            self._change(json.loads(body))
        return self._read(version, namespace, rest, parameters)

    def _read(
        self, version: str, namespace: str | None, rest: list[str], parameters: dict[str, str]
    ) -> tuple[int, bytes]:
        plural, kind = rest[0], _GROUPS[version][rest[0]]
        found = [each for each in self._objects(plural) if namespace in {None, each["metadata"].get("namespace")}]
        if len(rest) == 1:
            wanted = dict(part.split("=", 1) for part in parameters.get("labelSelector", "").split(",") if part)
            items = [each for each in found if wanted.items() <= each["metadata"]["labels"].items()]
            items = [{"apiVersion": version, "kind": kind, **each} for each in items]
            return _json({"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": items})
        named = [each for each in found if each["metadata"]["name"] == rest[1]]
        if not named:
            return _refusal("/".join(rest))
        if rest[2:] == ["log"]:
            lines = self._pipeline.log_of(rest[1]).splitlines(keepends=True)
            return 200, "".join(lines[-int(parameters.get("tailLines", "0")) :]).encode()
        return _json({"apiVersion": version, "kind": kind, **named[0]})

    def _change(self, patch: Object) -> None:
        cluster = self._pipeline.cluster
        if (annotations := (patch.get("metadata") or {}).get("annotations")) is not None:
            cluster.annotate(**annotations)
        if "spec" in patch:
            cluster.edit(**_merged(cluster.spec, patch["spec"]))

    def _objects(self, plural: str) -> list[Object]:
        cluster = self._pipeline.cluster
        ours = {"app.kubernetes.io/instance": NAME}
        if plural == "bucketingests":
            meta = _meta(NAME, NAMESPACE) | {
                "generation": cluster.resource.generation,
                "annotations": dict(cluster.resource.annotations),
            }
            return [{"metadata": meta, "spec": cluster.spec, "status": cluster.resource.status.to_document()}]
        if plural == "pods":
            drivers = [
                {
                    "metadata": _meta(pod.name, NAMESPACE, ours | {"bucketingest.dev/role": "driver"})
                    | {"creationTimestamp": f"{pod.created_at:%Y-%m-%dT%H:%M:%SZ}"},
                    "spec": {"containers": [{"name": "job", "image": "job"}]},
                    "status": {"phase": _PHASES[pod.state]},
                }
                for pod in cluster.pods.values()
            ]
            containers = {"containers": [{"name": "operator", "image": "operator"}]}
            operator = {"metadata": _meta("operator-0", OPERATORS, _OPERATOR), "spec": containers}
            return [
                *drivers,
                operator | {"status": {"phase": "Running" if self._pipeline.operator_looks else "Failed"}},
            ]
        if plural == "jobs":
            labels = ours | {"bucketingest.dev/role": "rollback"}
            return [
                {"metadata": _meta(f"rollback-{number}", NAMESPACE, labels), "status": {job.state.value: 1}}
                for number, job in cluster.jobs.items()
            ]
        if plural == "deployments":
            meta = _meta("operator", OPERATORS, _OPERATOR) | {"generation": 1}
            done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
            spec = {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": []}}}
            return [{"metadata": meta, "spec": spec, "status": done}]
        if plural == "leases":
            return [{"metadata": _meta("bucketingest-operator", OPERATORS), "spec": {}}]
        if plural == "nodes":
            return [{"metadata": _meta("node-1", None), "status": {}}]
        return []


def _merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    found = {**old, **{name: _merged(old.get(name, {}), value) for name, value in patch.items()}}
    return {name: value for name, value in found.items() if value is not None}


def _groups() -> list[str]:
    return [each for each in _GROUPS if "/" in each]


def _group(version: str) -> Object:
    served = {"groupVersion": version, "version": version.partition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [served], "preferredVersion": served}


def _resources(version: str) -> Object:
    verbs = ["get", "list", "patch", "watch", "create"]
    served = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "namespaced": plural not in _CLUSTER_WIDE,
            "kind": kind,
            "verbs": verbs,
            "shortNames": _SHORT.get(plural, []),
        }
        for plural, kind in _GROUPS[version].items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": served}


def _json(document: Object, status: int = 200) -> tuple[int, bytes]:
    return status, json.dumps(document).encode()


def _refusal(what: str) -> tuple[int, bytes]:
    return _json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": what}, 404)


@contextmanager
def kubeconfig_of(pipeline: WatchedPipeline, folder: Path) -> Iterator[Path]:
    """Serve it on a free port of this machine; yields a kubeconfig."""
    api = DrillApi(pipeline)

    class Handler(FakeHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = api.answer(self.command, parts.path, parameters, body)
            kind = "text/plain" if parts.path.endswith("/log") else "application/json"
            self.answer(status, text, Content_Type=kind)

        do_GET = do_PATCH = do_POST = _answer

    server = FakeServer(Handler)
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "of-on-call"}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
                "current-context": "here",
            }
        )
    )
    with server:
        yield file
