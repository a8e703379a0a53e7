"""Queries and changes of a cluster by tests, through its API."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from devcluster.binaries import find_tool

GROUP, VERSION, PLURAL = "bucketingest.dev", "v1alpha1", "bucketingests"
POLL_SECONDS = 0.1

Manifest = dict[str, Any]
T = TypeVar("T")


class Kube:
    """One cluster. Objects are plain dictionaries, as YAML has them."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._client = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._core = client.CoreV1Api(self._client)
        self._custom = client.CustomObjectsApi(self._client)

    def apply(self, *manifests: Manifest) -> None:
        """`kubectl apply`, as a user does. Raises AssertionError with kubectl's output."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """The output of kubectl. Raises AssertionError with its output if it fails."""
        command = [find_tool("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert not done.returncode, f"kubectl {' '.join(arguments[:4])}: {done.stdout}{done.stderr}"
        return done.stdout

    def resource(self, namespace: str, name: str) -> Manifest | None:
        """A BucketIngest."""
        try:
            found = self._custom.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return _plain(found)

    def create(self, manifest: Manifest) -> None:
        """Create a BucketIngest: faster than `apply`, for measurements."""
        namespace = manifest["metadata"]["namespace"]
        self._custom.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, manifest)

    def patch(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Change a BucketIngest by a JSON merge patch."""
        self._custom.patch_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name, dict(change))

    def delete(self, namespace: str, name: str) -> None:
        """Ask for the deletion of a BucketIngest."""
        self._custom.delete_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)

    def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Manifest]:
        """Pods with these labels, the oldest first."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found = self._core.list_namespaced_pod(namespace, label_selector=selector)
        pods = self._client.sanitize_for_serialization(found)["items"]
        return sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def delete_pod(self, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Ask for the deletion of a pod."""
        self._core.delete_namespaced_pod(name, namespace, grace_period_seconds=grace)

    def execute(self, namespace: str, pod: str, command: Sequence[str]) -> str:
        """Run a command in a pod's first container."""
        return self.kubectl("exec", "--namespace", namespace, pod, "--", *command)

    def logs(self, namespace: str, pod: str, lines: int = 40) -> str:
        """The end of a pod's log; the reason if there is none."""
        try:
            return str(self._core.read_namespaced_pod_log(pod, namespace, tail_lines=lines))
        except ApiException as error:
            return f"no log: {error.reason}"

    def events(self, namespace: str, name: str) -> list[Manifest]:
        """Events about an object, the oldest first."""
        found = self._core.list_namespaced_event(namespace, field_selector=f"involvedObject.name={name}")
        items = self._client.sanitize_for_serialization(found)["items"]
        return sorted(items, key=lambda event: event.get("lastTimestamp") or "")


def _plain(found: object) -> Manifest:
    assert isinstance(found, dict)
    return found


def wait_for(what: Callable[[], T], *, within: float, description: str, state: Callable[[], str] = str) -> T:
    """The first true answer of `what`. Raises AssertionError, with `state`, if there is none in time."""
    deadline = time.monotonic() + within
    while not (answer := what()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {description}\n{state()}"
        time.sleep(POLL_SECONDS)
    return answer


def condition(resource: Manifest | None, kind: str) -> dict[str, str]:
    """A condition of a resource's status; empty if it has none."""
    conditions = ((resource or {}).get("status") or {}).get("conditions") or []
    return next((dict(each) for each in conditions if each["type"] == kind), {})


def outline(resource: Manifest | None) -> str:
    """The status in a few lines, for a message."""
    if resource is None:
        return "there is no such resource"
    status = resource.get("status") or {}
    lines = [f"phase {status.get('phase')}, attempt {status.get('attempt')}, {json.dumps(status.get('lastCommit'))}"]
    lines += [
        f"{each['type']}={each['status']} {each['reason']}: {each['message']}" for each in status.get("conditions", [])
    ]
    lines += [f"attempt {json.dumps(each)}" for each in status.get("attempts", [])]
    return "\n".join(lines)
