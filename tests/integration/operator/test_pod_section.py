"""The pod section of a resource, as a real API server takes it."""

from __future__ import annotations

from support.operator.scene import Scene, Start


def test_a_whole_pod_section_is_taken_by_the_api_server(scene: Scene, start: Start) -> None:
    start()
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "batch"},
        "value": 5,
    }
    scene.kube.apply(priority)
    section = {
        "labels": {"team": "lake"},
        "annotations": {"example.com/note": "any text: ü"},
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
    assert pod["metadata"]["labels"]["team"] == "lake"
    assert pod["spec"]["affinity"] == section["affinity"]
    assert pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == {
        "bucketingest.dev/uid": scene.resource()["metadata"]["uid"]
    }
    assert {"name": "pod-certs", "secret": {"secretName": "kafka-certs", "defaultMode": 0o440}} in pod["spec"][
        "volumes"
    ]
