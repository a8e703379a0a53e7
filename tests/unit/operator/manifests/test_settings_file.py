"""The file with the settings of all jobs: what it may contain, and the messages about wrong content."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from bucketingest.spec.errors import SpecError
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.settings import JobSettings, NetworkPolicy
from bucketingest_operator.manifests.settings_file import load_settings, parse_settings
from support.operator.observations import UID, bucket_ingest, input_of

WHOLE = """
image: registry.example/job:1
imagePullPolicy: Always
imagePullSecrets: [pull]
grace: 1m30s
runAsUser: 2000
env: {AWS_REGION: eu-central-1}
envFromSecrets: [lake]
volumes: [{name: lake, persistentVolumeClaim: {claimName: lake}}]
volumeMounts: [{name: lake, mountPath: /lake}]
serviceAccountAnnotations: {eks.amazonaws.com/role-arn: "arn:x"}
allowedServiceAccounts: [team-a/lake]
podLabels: {team: data}
podAnnotations: {sidecar.istio.io/inject: "false"}
nodeSelector: {pool: ingest}
tolerations: [{key: ingest, operator: Exists}]
priorityClassName: high
allowedPriorityClasses: [high, low]
allowedTolerationKeys: [ingest]
schedulerName: yunikorn
runtimeClassName: gvisor
ephemeralStorage: 20Gi
tableOwners: {s3://lake/a: [team-a]}
master: k8s://https://10.0.0.1:6443
networkPolicy: {enabled: false, metricsFrom: [{podSelector: {}}]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_settings(text, "job.yaml")
    return str(caught.value).splitlines()


def test_every_setting_has_its_place() -> None:
    found = parse_settings(WHOLE)
    assert found == JobSettings(
        image="registry.example/job:1",
        image_pull_policy="Always",
        image_pull_secrets=("pull",),
        grace=timedelta(seconds=90),
        run_as_user=2000,
        env={"AWS_REGION": "eu-central-1"},
        env_from_secrets=("lake",),
        volumes=({"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}},),
        volume_mounts=({"name": "lake", "mountPath": "/lake"},),
        allowed_service_accounts=frozenset({"team-a/lake"}),
        service_account_annotations={"eks.amazonaws.com/role-arn": "arn:x"},
        pod_labels={"team": "data"},
        pod_annotations={"sidecar.istio.io/inject": "false"},
        node_selector={"pool": "ingest"},
        tolerations=({"key": "ingest", "operator": "Exists"},),
        priority_class_name="high",
        allowed_priority_classes=frozenset({"high", "low"}),
        allowed_toleration_keys=frozenset({"ingest"}),
        scheduler_name="yunikorn",
        runtime_class_name="gvisor",
        ephemeral_storage="20Gi",
        table_owners={"s3://lake/a": ("team-a",)},
        master="k8s://https://10.0.0.1:6443",
        network_policy=NetworkPolicy(enabled=False, metrics_from=({"podSelector": {}},)),
    )


@pytest.mark.parametrize("text", ["", "{}", "image: null\nvolumes:\n"])
def test_a_missing_setting_has_its_default(text: str) -> None:
    assert parse_settings(text) == JobSettings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("imagePulPolicy: Always", "did you mean imagePullPolicy?"),
        ("image_pull_policy: Always", "image_pull_policy"),
        ("envSecretKeys: {A: [b, c]}", "envSecretKeys: is not a setting"),
        ("imagePullPolicy: Sometimes", "imagePullPolicy"),
        ("image: ''", "image"),
        ("runAsUser: -1", "runAsUser"),
        ("runAsUser: '1000'", "runAsUser"),
        ("grace: 60", "grace"),
        ("grace: soon", "grace"),
        ("env: {PORT: 80}", "env.PORT"),
        ("env: {_SPARK_AUTH_SECRET: guess}", "env._SPARK_AUTH_SECRET: would replace the secret"),
        ("envFromSecrets: [A B]", "envFromSecrets[0]"),
        ("volumes: [{emptyDir: {}}]", "volumes[0].name"),
        ("volumes: [{name: tmp, emptyDir: {}}]", "'tmp', which is taken"),
        ("volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]", "volumes[1].name"),
        ("volumes: [{name: host, hostPath: {path: /}}]", "allowHostPath"),
        ("volumeMounts: [{name: lake, mountPath: /lake}]", "volumeMounts[0].name"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: a}]", "volumeMounts[0].mountPath"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: /tmp/}]", "uses itself"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: /etc/bucketingest/x}]", "itself"),
        ("podLabels: {bucketingest.dev/uid: x}", "set by the operator"),
        ("master: local", "master"),
        ("networkPolicy: {enable: true}", "networkPolicy.enable: is not a setting (did you mean enabled?)"),
        ("networkPolicy: {enabled: 'true'}", "networkPolicy.enabled"),
        ("- image", "not one mapping"),
        ("image: a\n---\nimage: b", "not one mapping"),
        ("image: a\nimage: b", "image"),
    ],
)
def test_what_is_wrong_is_reported(text: str, words: str) -> None:
    assert any(words in line for line in problems(text)), problems(text)


def test_all_problems_are_reported_together_with_their_lines() -> None:
    lines = problems("image: a\nrunAsUser: -1\nmastre: x\n")
    assert any(line.startswith("job.yaml:2:") and "runAsUser" in line for line in lines)
    assert any(line.startswith("job.yaml:3:") and "mastre" in line for line in lines)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml")


def test_a_folder_of_the_node_is_mounted_only_if_that_is_allowed() -> None:
    text = "allowHostPath: true\nvolumes: [{name: host, hostPath: {path: /data}}]"
    assert parse_settings(text).volumes[0]["name"] == "host"


def test_settings_reach_driver_executors_and_rollback_and_ours_win() -> None:
    settings = parse_settings(WHOLE.replace("AWS_REGION: eu-central-1", "MASTER: local, AWS_REGION: eu"))
    made = Manifests(bucket_ingest(), "ingest", UID, settings)
    attempt_input = input_of(made.wanted)
    driver = made.driver_pod(1, attempt_input)
    template = yaml.safe_load(made.config_map(1, attempt_input)["data"]["executor.yaml"])
    rollback = made.rollback_job(1)["spec"]["template"]
    for pod in (driver, template, rollback):
        spec = pod["spec"]
        assert {"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}} in spec["volumes"]
        assert {"name": "lake", "mountPath": "/lake"} in spec["containers"][0]["volumeMounts"]
        assert spec["tolerations"] == [{"key": "ingest", "operator": "Exists"}]
        assert spec["priorityClassName"] == "high"
        assert {"name": "AWS_REGION", "value": "eu"} in spec["containers"][0]["env"]
        assert pod["metadata"]["labels"]["team"] == "data"
        assert pod["metadata"]["labels"]["bucketingest.dev/uid"] == UID
        assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    masters = [each["value"] for each in driver["spec"]["containers"][0]["env"] if each["name"] == "MASTER"]
    assert masters == ["k8s://https://10.0.0.1:6443"]
