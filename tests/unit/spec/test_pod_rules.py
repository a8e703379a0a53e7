"""The pod section is closed: what belongs to Kubernetes, Spark or the operator cannot be set, and errors say why."""

from collections.abc import Callable
from typing import Any

import pytest

Find = Callable[[dict[str, Any]], list[str]]

FULL = {
    "labels": {"team": "lake", "example.com/cost-centre": "4711", "app.kubernetes.io/part-of": "shop"},
    "annotations": {
        "example.com/note": "any text: ü / 1",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    },
    "nodeSelector": {"kubernetes.io/arch": "amd64", "disk": "nvme"},
    "tolerations": [
        {"key": "dedicated", "value": "spark", "effect": "NoExecute", "tolerationSeconds": 30},
        {"operator": "Exists"},
    ],
    "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "batch",
    "imagePullSecrets": ["registry"],
    "env": [
        {"name": "AWS_REGION", "value": "eu-central-1"},
        {"name": "TOKEN", "secretKeyRef": {"name": "api", "key": "token"}},
    ],
    "volumes": [
        {"name": "certs", "mountPath": "/mnt/certs", "secret": "kafka-certs"},
        {"name": "tables", "mountPath": "/mnt/tables", "persistentVolumeClaim": "tables", "readOnly": False},
    ],
}


def test_a_full_pod_section_breaks_no_rule(problems: Find) -> None:
    assert problems({"spec.pod": FULL}) == []


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"labels": {"app.kubernetes.io/name": "x"}}, 'labels["app.kubernetes.io/name"]: cannot be set here'),
        ({"labels": {"bucketingest.dev/uid": "x"}}, 'labels["bucketingest.dev/uid"]: cannot be set here'),
        ({"labels": {"spark-role": "driver"}}, 'labels["spark-role"]: cannot be set here'),
        ({"labels": {"team": "a b"}}, "labels.team: is 'a b'"),
        ({"labels": {"-team": "a"}}, 'labels["-team"]: is no name of Kubernetes'),
        (
            {"annotations": {"container.apparmor.security.beta.kubernetes.io/driver": "unconfined"}},
            'annotations["container.apparmor.security.beta.kubernetes.io/driver"]: cannot be set here',
        ),
        ({"annotations": {"policy.k8s.io/x": "y"}}, 'annotations["policy.k8s.io/x"]: cannot be set here'),
        ({"nodeSelector": {"disk": "a/b"}}, "nodeSelector.disk: is 'a/b'"),
        ({"tolerations": [{"value": "x"}]}, "tolerations[0].key: is required for operator Equal"),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            "tolerations[0].value: is not allowed with operator Exists",
        ),
        (
            {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]},
            "tolerations[0].tolerationSeconds: is for effect NoExecute only",
        ),
        ({"env": [{"name": "SPARK_CONF_DIR", "value": "/x"}]}, "env[0].name: is SPARK_CONF_DIR, which belongs"),
        ({"env": [{"name": "_SPARK_AUTH_SECRET", "value": "x"}]}, "env[0].name: is _SPARK_AUTH_SECRET, which belongs"),
        ({"env": [{"name": "MASTER", "value": "local"}]}, "env[0].name: is MASTER, which belongs"),
        ({"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}, "env[0].name: is LD_PRELOAD, which belongs"),
        ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env[1].name: names A a second time"),
        ({"env": [{"name": "A"}]}, "env[0]: has none; allowed: exactly one of value and secretKeyRef"),
        ({"volumes": [{"name": "a", "mountPath": "/mnt/a"}]}, "volumes[0]: has none; allowed: exactly one of secret"),
        (
            {
                "volumes": [
                    {"name": "a", "mountPath": "/mnt/a", "secret": "x"},
                    {"name": "a", "mountPath": "/mnt/b", "secret": "x"},
                ]
            },
            "volumes[1].name: names a a second time",
        ),
        (
            {
                "volumes": [
                    {"name": "a", "mountPath": "/mnt/a", "secret": "x"},
                    {"name": "b", "mountPath": "/mnt/a/b", "secret": "x"},
                ]
            },
            "volumes[1].mountPath: is /mnt/a/b, and /mnt/a is mounted too",
        ),
    ],
)
def test_what_belongs_to_others_or_says_nothing_is_refused(problems: Find, pod: dict[str, Any], message: str) -> None:
    (found,) = problems({"spec.pod": pod})
    assert found.startswith(f"spec.pod.{message}")


@pytest.mark.parametrize(
    "pod",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"securityContext": {"runAsUser": 0}},
        {"serviceAccountName": "kube-system/admin"},
        {"serviceAccount": "admin"},
        {"automountServiceAccountToken": True},
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {}, "topologyKey": "zone", "namespaces": ["kube-system"]}
                    ]
                }
            }
        },
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            }
        },
        {"nodeName": "control-plane"},
        {"containers": []},
        {"initContainers": [{"image": "x"}]},
        {"runtimeClassName": "x"},
        {"namespace": "kube-system"},
        {"volumes": [{"name": "a", "mountPath": "/mnt/a", "hostPath": "/"}]},
        {"volumes": [{"name": "a", "mountPath": "/mnt/a", "secret": "x", "namespace": "kube-system"}]},
        {"volumes": [{"name": "a", "mountPath": "/mnt/a", "secret": {"secretName": "x"}}]},
        {"volumes": [{"name": "a", "mountPath": "/mnt/../etc/bucketingest", "secret": "x"}]},
        {"volumes": [{"name": "a", "mountPath": "/etc/bucketingest", "secret": "x"}]},
        {"volumes": [{"name": "a", "mountPath": "/mnt", "secret": "x"}]},
        {"volumes": [{"name": "a", "mountPath": "/mnt/a", "secret": "kube-system/x"}]},
        {"env": [{"name": "A", "secretKeyRef": {"name": "x", "key": "y", "namespace": "kube-system"}}]},
        {"env": [{"name": "A", "secretKeyRef": {"name": "../x", "key": "y"}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        {"topologySpread": [{"topologyKey": "x", "labelSelector": {}}]},
    ],
)
def test_what_would_give_more_than_a_pod_of_the_namespace_is_not_in_the_schema(
    problems: Find, pod: dict[str, Any]
) -> None:
    assert problems({"spec.pod": pod})
