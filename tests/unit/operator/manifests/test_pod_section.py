"""The pod section of a resource is in all its pods, and changes nothing of their security and identity."""

from __future__ import annotations

from typing import Any

import yaml

from bucketingest.registry.credentials import REGISTRY_VARIABLE
from bucketingest.spec.job_report import CompactionWork
from bucketingest_operator.manifests.attempt_objects import UID_LABEL
from bucketingest_operator.manifests.merging_jobs import MergingJobs
from bucketingest_operator.manifests.settings import JobSettings
from support.operator.observations import UID, bucket_ingest, input_of

WORK = CompactionWork(compaction="20261121115000000", number=12, round=3, chunks=64, size=10**10)
SETTINGS = JobSettings(
    image="job:1",
    env={"AWS_REGION": "us-east-1", "TOKEN": "of all jobs"},
    image_pull_secrets=("of-all",),
    node_selector={"disk": "hdd", "arch": "amd64"},
    priority_class_name="of-all",
    pod_labels={"team": "platform"},
)
POD = {
    "labels": {"team": "lake"},
    "annotations": {"example.com/note": "text"},
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "dedicated", "value": "spark", "effect": "NoSchedule"}],
    "topologySpread": [{"topologyKey": "zone", "maxSkew": 2}],
    "priorityClassName": "batch",
    "imagePullSecrets": ["mine", "of-all"],
    "env": [
        {"name": "AWS_REGION", "value": "eu-central-1"},
        {"name": "TOKEN", "secretKeyRef": {"name": "api", "key": "token"}},
    ],
    "volumes": [
        {"name": "config", "mountPath": "/mnt/certs", "secret": "kafka-certs"},
        {"name": "rules", "mountPath": "/mnt/rules", "configMap": "rules"},
        {"name": "tables", "mountPath": "/mnt/tables", "persistentVolumeClaim": "tables", "readOnly": False},
    ],
}


def pods(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Role -> pod, with metadata."""
    made = MergingJobs(bucket_ingest(spec), "ingest", UID, SETTINGS)
    config = made.config_map(3, input_of(made.wanted))
    return {
        "driver": made.driver_pod(3, input_of(made.wanted)),
        "executor": yaml.safe_load(config["data"]["executor.yaml"]),
        "rollback": made.rollback_job(3)["spec"]["template"],
        "compaction": made.compaction_job(WORK, "digest")["spec"]["template"],
        "services": made.services_job()["spec"]["template"],
    }


def test_it_is_in_all_pods_and_wins_over_the_settings_of_all_jobs() -> None:
    for role, pod in pods({"pod": POD}).items():
        spec, metadata = pod["spec"], pod["metadata"]
        assert metadata["labels"]["team"] == "lake", role
        assert metadata["annotations"]["example.com/note"] == "text"
        assert spec["nodeSelector"] == {"disk": "nvme", "arch": "amd64"}
        assert spec["tolerations"] == [{"key": "dedicated", "value": "spark", "effect": "NoSchedule"}]
        assert spec["topologySpreadConstraints"] == [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {UID_LABEL: UID}},
            }
        ]
        assert metadata["labels"][UID_LABEL] == UID
        assert spec["priorityClassName"] == "batch"
        assert spec["imagePullSecrets"] == [{"name": "of-all"}, {"name": "mine"}]


def test_environment_variables_have_one_value_and_secrets_stay_references() -> None:
    for role, pod in pods({"pod": POD}).items():
        (container,) = pod["spec"]["containers"]
        by_name: dict[str, list[dict[str, Any]]] = {}
        for each in container["env"]:
            by_name.setdefault(each["name"], []).append(each)
        assert all(len(each) == 1 for each in by_name.values()), role
        assert by_name["AWS_REGION"] == [{"name": "AWS_REGION", "value": "eu-central-1"}]
        assert by_name["TOKEN"] == [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}]


def test_volumes_have_names_of_their_own_and_are_read_only_unless_asked() -> None:
    for pod in pods({"pod": POD}).values():
        (container,) = pod["spec"]["containers"]
        names = [volume["name"] for volume in pod["spec"]["volumes"]]
        assert len(set(names)) == len(names)
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert mounts["/mnt/certs"] == {"name": "pod-config", "mountPath": "/mnt/certs", "readOnly": True}
        assert mounts["/mnt/tables"] == {"name": "pod-tables", "mountPath": "/mnt/tables"}
        assert {"name": "pod-rules", "configMap": {"name": "rules"}} in pod["spec"]["volumes"]


def test_security_identity_and_the_operators_own_labels_are_as_without_it() -> None:
    without, with_it = pods({}), pods({"pod": POD})
    for role, pod in with_it.items():
        plain = without[role]
        for name in ("securityContext", "serviceAccountName", "automountServiceAccountToken", "restartPolicy"):
            assert pod["spec"].get(name) == plain["spec"].get(name), role
        (container,), (before,) = pod["spec"]["containers"], plain["spec"]["containers"]
        for name in ("securityContext", "image", "command", "args", "resources"):
            assert container.get(name) == before.get(name), role
        assert pod["metadata"]["labels"].items() >= (plain["metadata"]["labels"] | {"team": "lake"}).items()
        assert not {"hostNetwork", "hostPID", "hostIPC", "nodeName"} & pod["spec"].keys()


def test_a_named_account_is_that_of_every_pod_and_gets_the_drivers_rights() -> None:
    for role, pod in pods({"pod": {"serviceAccountName": "lake"}}).items():
        assert pod["spec"]["serviceAccountName"] == "lake", role
    made = MergingJobs(bucket_ingest({"pod": {"serviceAccountName": "lake"}}), "shop", UID, SETTINGS)
    assert made.identity() == []
    assert made.role_binding()["subjects"] == [{"kind": "ServiceAccount", "name": "lake", "namespace": "shop"}]
    conf = made.config_map(1, input_of(made.wanted))["data"]["spark-defaults.conf"]
    assert "spark.kubernetes.authenticate.executor.serviceAccountName lake\n" in conf


def test_affinity_is_taken_over_word_for_word() -> None:
    term = {"labelSelector": {"matchLabels": {"team": "lake"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for role, pod in pods({"pod": {"affinity": affinity}}).items():
        assert pod["spec"]["affinity"] == affinity, role


def test_without_it_pods_are_as_the_settings_say() -> None:
    for pod in pods({}).values():
        assert pod["spec"]["nodeSelector"] == SETTINGS.node_selector
        assert "topologySpreadConstraints" not in pod["spec"]


KAFKA = {
    "source": {
        "kafka": {
            "bootstrapServers": "kafka:9092",
            "topics": ["orders"],
            "secretRef": {"name": "all-keys"},
            "optionsFrom": {
                "kafka.ssl.keystore.key": {"secretKeyRef": {"name": "user", "key": "user.key"}},
                "kafka.ssl.truststore.certificates": {"secretKeyRef": {"name": "ca", "key": "ca.crt"}},
            },
        }
    },
    "format": {"type": "json", "schema": "value BIGINT"},
}


def test_options_from_secrets_are_one_folder_of_the_driver_alone_and_single_keys_come_last() -> None:
    made = pods(KAFKA)
    (volume,) = [each for each in made["driver"]["spec"]["volumes"] if each["name"] == "source-options"]
    assert volume["projected"] == {
        "defaultMode": 0o440,
        "sources": [
            {"secret": {"name": "all-keys"}},
            {"secret": {"name": "user", "items": [{"key": "user.key", "path": "kafka.ssl.keystore.key"}]}},
            {"secret": {"name": "ca", "items": [{"key": "ca.crt", "path": "kafka.ssl.truststore.certificates"}]}},
        ],
    }
    for role in ("executor", "rollback", "compaction", "services"):
        assert "source-options" not in str(made[role]["spec"]["volumes"])


def test_the_registrys_secret_is_a_folder_of_the_driver_alone() -> None:
    registry = {"url": "https://registry:8081", "secretRef": {"name": "access"}}
    made = pods({**KAFKA, "format": {"type": "avro", "registry": registry}})
    driver = made["driver"]["spec"]
    (volume,) = [each for each in driver["volumes"] if each["name"] == "registry-secret"]
    assert volume["secret"] == {"secretName": "access", "defaultMode": 0o440}
    (mount,) = [each for each in driver["containers"][0]["volumeMounts"] if each["name"] == "registry-secret"]
    assert mount["readOnly"]
    variable = {"name": REGISTRY_VARIABLE, "value": mount["mountPath"]}
    assert variable in driver["containers"][0]["env"]
    for role in ("executor", "rollback", "compaction", "services"):
        assert "registry-secret" not in str(made[role]["spec"])
    assert "registry-secret" not in str(pods(KAFKA)["driver"]["spec"])


def test_a_driver_watches_what_it_mounts_of_secrets_and_config_maps() -> None:
    claim = {"name": "tables", "mountPath": "/mnt/tables", "persistentVolumeClaim": "tables"}
    for volumes, watches in (([], False), ([claim], False), (POD["volumes"], True)):
        (container,) = pods({"pod": {"volumes": volumes}})["driver"]["spec"]["containers"]
        names = [each["name"] for each in container["env"]]
        assert ("BUCKETINGEST_STOP_ON_CHANGED_SECRET" in names) is watches, volumes
