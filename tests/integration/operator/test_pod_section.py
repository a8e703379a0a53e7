"""The pod section of a resource, as a real API server takes it."""

from __future__ import annotations

from typing import Any

from support.operator.scene import Scene, Start

USERS_LABELS = ("app.kubernetes.io/component", "app.kubernetes.io/part-of", "app.kubernetes.io/version")
USERS_ANNOTATIONS = (
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "kubectl.kubernetes.io/default-container",
    "kubernetes.io/egress-bandwidth",
    "kubernetes.io/ingress-bandwidth",
)
"""Keys of Kubernetes that are for users."""


def test_a_whole_pod_section_is_taken_by_the_api_server(scene: Scene, start: Start) -> None:
    start()
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "batch"},
        "value": 5,
    }
    scene.kube.apply(priority)
    section: dict[str, Any] = {
        "labels": {"team": "lake", **dict.fromkeys(USERS_LABELS, "any")},
        "annotations": {"example.com/note": "any text: ü", **dict.fromkeys(USERS_ANNOTATIONS, "false")},
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
        "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"team": "lake"}},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            },
        },
        "priorityClassName": "batch",
        "imagePullSecrets": ["registry"],
        "env": [{"name": "API_TOKEN", "secretKeyRef": {"name": "api", "key": "token"}}],
        "volumes": [{"name": "certs", "mountPath": "/mnt/certs", "secret": "kafka-certs"}],
    }
    scene.apply(pod=section)
    scene.driver()
    (pod,) = scene.pods()
    assert pod["spec"]["priority"] == 5
    assert section["labels"].items() <= pod["metadata"]["labels"].items()
    assert section["annotations"].items() <= pod["metadata"]["annotations"].items()
    assert pod["spec"]["affinity"] == section["affinity"]
    assert pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == {
        "bucketingest.dev/uid": scene.resource()["metadata"]["uid"]
    }
    assert {"name": "pod-certs", "secret": {"secretName": "kafka-certs", "defaultMode": 0o440}} in pod["spec"][
        "volumes"
    ]
