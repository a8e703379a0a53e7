"""The chart's PodMonitors as Prometheus' own configuration, as the Prometheus Operator translates them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from devcluster.binaries import find_tool
from devcluster.release import CHART

Manifest = dict[str, Any]
_META: Final = "__meta_kubernetes"
_LIMITS: Final = ("sampleLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit", "bodySizeLimit")


def rendered(release: str, namespace: str, *values: str) -> list[Manifest]:
    """What the chart makes of these values of `monitoring`. No cluster is asked."""
    command = [find_tool("helm"), "template", release, str(CHART), "--namespace", namespace, "--kube-version", "1.36.0"]
    command += [word for value in values for word in ("--set", f"monitoring.{value}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def scrape_configurations(manifests: Sequence[Manifest], pods: Sequence[Manifest]) -> list[Manifest]:
    """One for each endpoint of each PodMonitor. `pods`: those of the API server, in the place of Prometheus' own
    discovery, which Debian's lacks.
    """
    return [
        _scrape(monitor, endpoint, [target for pod in pods for target in _targets(pod)])
        for monitor in manifests
        if monitor["kind"] == "PodMonitor"
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    ]


def _targets(pod: Manifest) -> Iterator[Manifest]:
    """The ports of a pod, with the labels that Prometheus' discovery gives each."""
    metadata, where = pod["metadata"], pod["status"].get("podIP")
    about = {"namespace": metadata["namespace"], "pod_name": metadata["name"]}
    about |= {f"pod_label_{_label(name)}": value for name, value in metadata["labels"].items()}
    for port in (port for each in pod["spec"]["containers"] for port in each.get("ports") or () if where):
        labels = {**about, "pod_container_port_name": port["name"]}
        yield {
            "targets": [f"{where}:{port['containerPort']}"],
            "labels": {f"{_META}_{name}": value for name, value in labels.items()},
        }


def _label(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _scrape(monitor: Manifest, endpoint: Manifest, targets: Sequence[Manifest]) -> Manifest:
    spec, metadata = monitor["spec"], monitor["metadata"]
    return {
        "job_name": f"podMonitor/{metadata['namespace']}/{metadata['name']}",
        "honor_labels": endpoint["honorLabels"],
        "metrics_path": endpoint["path"],
        "static_configs": list(targets),
        "relabel_configs": [*_pods(monitor, endpoint), *map(_snake, endpoint.get("relabelings", ()))],
        "metric_relabel_configs": list(map(_snake, endpoint.get("metricRelabelings", ()))),
        **_snake({name: spec[name] for name in _LIMITS if name in spec}),
    }


def _pods(monitor: Manifest, endpoint: Manifest) -> Iterator[Manifest]:
    """The pods that it selects, and the labels that each series gets."""
    spec, metadata = monitor["spec"], monitor["metadata"]
    for name, value in spec["selector"]["matchLabels"].items():
        yield _keep(f"pod_label_{_label(name)}", value)
    if not (spec.get("namespaceSelector") or {}).get("any", False):
        yield _keep("namespace", metadata["namespace"])
    yield _keep("pod_container_port_name", endpoint["port"])
    yield {"source_labels": [f"{_META}_namespace"], "target_label": "namespace"}
    yield {"source_labels": [f"{_META}_pod_name"], "target_label": "pod"}
    yield {"target_label": "job", "replacement": f"{metadata['namespace']}/{metadata['name']}"}


def _keep(name: str, value: str) -> Manifest:
    return {"action": "keep", "source_labels": [f"{_META}_{name}"], "regex": re.escape(value)}


def _snake(words: Manifest) -> Manifest:
    """Prometheus' own spelling of names."""
    return {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): value for name, value in words.items()}
