"""The chart as Helm renders it: what is installed, with which rights, and which values are refused."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from bucketingest.spec.crd import custom_resource_definition
from bucketingest.spec.reading.yaml_documents import read_documents
from bucketingest_operator.guards import webhook as webhook_server
from bucketingest_operator.kube.leadership import LEASE_NAME
from bucketingest_operator.main import parse_options
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.settings_file import load_settings
from devcluster.binaries import find_tool
from devcluster.release import CHART
from support.cluster import rights

Manifest = dict[str, Any]
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding"}
EVERYTHING = {
    "operator": {"replicas": 2, "watchNamespaces": ["ingest", "orders"], "priorityClassName": "high"},
    "monitoring": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "webhook": {"enabled": True},
    "networkPolicy": {"jobs": True, "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    "job": {
        "image": "registry.example/job:1",
        "env": {"AWS_REGION": "eu-west-1"},
        "envFromSecrets": ["storage-credentials"],
        "volumes": [{"name": "tables", "persistentVolumeClaim": {"claimName": "tables"}}],
        "volumeMounts": [{"name": "tables", "mountPath": "/tables"}],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "priorityClassName": "low",
    },
}


def helm(tmp_path: Path, command: str, values: object) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    arguments = {
        "template": ["template", "ours", str(CHART), "--namespace", "system", "--kube-version", "1.36.0"],
        "lint": ["lint", "--strict", str(CHART)],
    }[command]
    return subprocess.run(
        [find_tool("helm"), *arguments, "--values", str(file)], capture_output=True, text=True, check=False
    )


def rendered(tmp_path: Path, values: object) -> list[Manifest]:
    done = helm(tmp_path, "template", values)
    assert not done.returncode, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def rules(manifests: list[Manifest], *kinds: str) -> list[dict[str, Any]]:
    return [rule for kind in kinds for role in of_kind(manifests, kind) for rule in role["rules"]]


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_finds_nothing_wrong(tmp_path: Path, values: Manifest) -> None:
    done = helm(tmp_path, "lint", values)
    assert not done.returncode, done.stdout


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_no_object_has_a_key_twice_which_strict_readers_refuse(tmp_path: Path, values: Manifest) -> None:
    found = read_documents(helm(tmp_path, "template", values).stdout, "the chart")
    assert found
    assert [problem for each in found for problem in each.problems] == []


def test_the_definition_is_the_one_of_the_spec_model_and_outlives_the_release(tmp_path: Path) -> None:
    (definition,) = of_kind(rendered(tmp_path, {}), "CustomResourceDefinition")
    assert definition["metadata"].pop("annotations").pop("helm.sh/resource-policy") == "keep"
    wanted = custom_resource_definition()
    wanted["metadata"].pop("annotations", None)
    assert definition == wanted


def test_the_definition_can_be_left_to_another_owner(tmp_path: Path) -> None:
    assert not of_kind(rendered(tmp_path, {"crds": {"install": False}}), "CustomResourceDefinition")


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_operator_reads_the_settings_that_the_chart_writes(tmp_path: Path, values: Manifest) -> None:
    loaded = job_settings(tmp_path, values)
    wanted = values.get("job", {})
    assert loaded.image == wanted.get("image", "bucketingest-job:0.2.0")
    assert list(loaded.env_from_secrets) == wanted.get("envFromSecrets", [])
    assert [dict(each) for each in loaded.volumes] == wanted.get("volumes", [])


def job_settings(tmp_path: Path, values: Manifest) -> JobSettings:
    (found,) = (
        each for each in of_kind(rendered(tmp_path, values), "ConfigMap") if "job.yaml" in (each.get("data") or {})
    )
    file = tmp_path / "job.yaml"
    file.write_text(found["data"]["job.yaml"])
    return load_settings(file)


def test_without_a_user_the_namespace_chooses_one(tmp_path: Path) -> None:
    values = {"operator": {"runAsUser": None}, "job": {"runAsUser": None}}
    assert job_settings(tmp_path, values).run_as_user is None
    assert job_settings(tmp_path, {}).run_as_user == 10001
    for each in of_kind(rendered(tmp_path, values), "Deployment"):
        assert "runAsUser" not in str(each)


@pytest.mark.parametrize("namespaces", [[], ["ingest"]])
def test_jobs_have_network_policies_in_whatever_namespaces_unless_they_are_turned_off(
    tmp_path: Path, namespaces: list[str]
) -> None:
    values = {"operator": {"watchNamespaces": namespaces}}
    assert job_settings(tmp_path, values).network_policy.enabled
    assert job_settings(tmp_path, values).network_policy.metrics_from == ()
    assert not job_settings(tmp_path, {**values, "networkPolicy": {"jobs": False}}).network_policy.enabled


def test_where_few_may_read_metrics_the_operator_still_reads_those_of_jobs(tmp_path: Path) -> None:
    operator, prometheus = job_settings(tmp_path, EVERYTHING).network_policy.metrics_from
    assert prometheus == {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    (deployment,) = of_kind(rendered(tmp_path, EVERYTHING), "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert operator["podSelector"]["matchLabels"].items() <= labels.items()
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "system"}


def test_nobody_can_read_a_secret_or_run_a_command_in_a_pod(tmp_path: Path) -> None:
    for rule in rules(rendered(tmp_path, {}), "ClusterRole", "Role"):
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert not {"pods/exec", "pods/log"} & set(rule["resources"])
        assert "secrets" not in rule["resources"] or rule["verbs"] == ["create"]


def test_with_namespaces_the_operator_can_change_nothing_outside_of_them(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, EVERYTHING)
    bound = {each["roleRef"]["name"] for each in of_kind(manifests, "ClusterRoleBinding")}
    for role in of_kind(manifests, "ClusterRole"):
        if role["metadata"]["name"] in bound:
            assert all(set(rule["verbs"]) <= {"get", "list", "watch"} for rule in role["rules"])
    assert {role["metadata"]["namespace"] for role in of_kind(manifests, "Role")} == {"system", "ingest", "orders"}


def test_the_operator_has_the_rights_that_it_needs_and_no_others(tmp_path: Path) -> None:
    def plain(found: list[dict[str, Any]]) -> list[str]:
        return sorted(
            json.dumps({name: sorted(words) for name, words in rule.items()}, sort_keys=True) for rule in found
        )

    def everywhere(manifests: list[Manifest]) -> list[str]:
        bound = {each["roleRef"]["name"] for each in of_kind(manifests, "ClusterRoleBinding")}
        roles = [each for each in of_kind(manifests, "ClusterRole") if each["metadata"]["name"] in bound]
        return plain(rules(roles, "ClusterRole"))

    manifests = rendered(tmp_path, {})
    assert everywhere(manifests) == plain([*rights.NAMESPACED, *rights.CLUSTER, *rights.WHOLE_CLUSTER])
    renamed = [
        {**rule, **({"resourceNames": ["ours-bucketingest-operator"]} if "resourceNames" in rule else {})}
        for rule in rights.LEASE
    ]
    assert plain(rules(manifests, "Role")) == plain([*renamed, *rights.WATCH])
    named = rendered(tmp_path, {"operator": {"watchNamespaces": ["ingest"]}})
    assert plain(rules(named, "Role")) == plain([*renamed, *rights.NAMESPACED, *rights.WATCH])
    assert everywhere(named) == plain([*rights.CLUSTER])


def test_without_being_asked_for_there_is_no_webhook(tmp_path: Path) -> None:
    found = helm(tmp_path, "template", {}).stdout
    assert "webhook" not in found


def test_the_webhooks_secret_of_helm_and_that_of_cert_manager_are_two(tmp_path: Path) -> None:
    mounted = set()
    for by_cert_manager in (False, True):
        values = {"webhook": {"enabled": True, "certManager": by_cert_manager}}
        (deployment,) = of_kind(rendered(tmp_path, values), "Deployment")
        volumes = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["volumes"]}
        mounted.add(volumes["webhook"]["secret"]["secretName"])
    assert len(mounted) == 2, "Helm takes over no Secret that it did not make"


@pytest.mark.parametrize("by_cert_manager", [False, True])
def test_the_webhook_has_a_certificate_for_its_service_and_refuses_nothing_while_it_is_away(
    tmp_path: Path, by_cert_manager: bool
) -> None:
    manifests = rendered(tmp_path, {"webhook": {"enabled": True, "certManager": by_cert_manager}})
    (configuration,) = of_kind(manifests, "ValidatingWebhookConfiguration")
    (webhook,) = configuration["webhooks"]
    service = webhook["clientConfig"]["service"]
    host = f"{service['name']}.{service['namespace']}.svc"
    assert service["path"] == webhook_server.PATH
    assert webhook["failurePolicy"] == "Ignore"
    assert "namespaceSelector" not in webhook
    ports = {each["port"]: each["targetPort"] for each in of_kind(manifests, "Service")[0]["spec"]["ports"]}
    assert ports[service["port"]] == "webhook"
    (deployment,) = of_kind(manifests, "Deployment")
    (mounted,) = [each for each in deployment["spec"]["template"]["spec"]["volumes"] if each["name"] == "webhook"]
    assert mounted["secret"]["optional"] is True, "the operator starts without it"
    if by_cert_manager:
        (made,) = of_kind(manifests, "Certificate")
        assert made["spec"]["dnsNames"] == [host]
        assert made["spec"]["secretName"] == mounted["secret"]["secretName"]
        named = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
        assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": named}
        assert not of_kind(manifests, "Secret")
    else:
        (secret,) = of_kind(manifests, "Secret")
        assert secret["metadata"]["name"] == mounted["secret"]["secretName"]
        assert webhook["clientConfig"]["caBundle"] == secret["data"]["tls.crt"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [host]


def test_the_webhook_judges_the_namespaces_that_its_release_watches(tmp_path: Path) -> None:
    (configuration,) = of_kind(rendered(tmp_path, EVERYTHING), "ValidatingWebhookConfiguration")
    (selected,) = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert (selected["key"], selected["values"]) == ("kubernetes.io/metadata.name", ["ingest", "orders"])


def test_helm_asks_before_it_uninstalls_where_the_operator_watches(tmp_path: Path) -> None:
    (job,) = of_kind(rendered(tmp_path, EVERYTHING), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert len(job["metadata"]["name"]) <= 63
    assert job["spec"]["backoffLimit"] == 0
    (container,) = job["spec"]["template"]["spec"]["containers"]
    asked = parse_options(container["args"], {})
    assert asked.may_uninstall
    assert asked.namespace == ("ingest", "orders")
    assert not of_kind(rendered(tmp_path, {"uninstall": {"check": False}}), "Job")


def test_each_release_has_its_own_lease_and_the_default_release_keeps_its_name(tmp_path: Path) -> None:
    for values, name in (({}, "ours-bucketingest-operator"), ({"fullnameOverride": "bucketingest"}, LEASE_NAME)):
        manifests = rendered(tmp_path, values)
        (deployment,) = of_kind(manifests, "Deployment")
        assert f"--leader-election-name={name}" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert [name] in [rule.get("resourceNames") for rule in rules(manifests, "Role")]


def test_every_pod_fits_the_restricted_security_standard(tmp_path: Path) -> None:
    manifests = rendered(tmp_path, EVERYTHING)
    pods = [each["spec"]["template"]["spec"] for each in of_kind(manifests, "Deployment")]
    pods += [each["spec"]["template"]["spec"] for each in of_kind(manifests, "Job")]
    pods += [each["spec"] for each in of_kind(manifests, "Pod")]
    assert len(pods) == 3
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"operater": {}}, "operater"),
        ({"operator": {"replicas": "two"}}, "replicas"),
        ({"operator": {"logFormat": "xml"}}, "logFormat"),
        ({"operator": {"watchNamespaces": ["Not A Namespace"]}}, "watchNamespaces"),
        ({"operator": {"maxRestarts": 0}}, "maxRestarts"),
        ({"networkPolicy": {"jobs": "yes"}}, "jobs"),
        ({"job": {"grace": "soon"}}, "grace"),
        ({"job": {"env": {"_SPARK_AUTH_SECRET": "guess"}}}, "_SPARK_AUTH_SECRET"),
        ({"job": {"runAsUser": 0}}, "runAsUser"),
        ({"job": {"volumeMounts": [{"name": "tables", "mountPath": "tables"}]}}, "mountPath"),
        ({"job": {"envFromSecret": ["x"]}}, "envFromSecret"),
        ({"monitoring": {"podMonitor": {"enabled": "yes"}}}, "enabled"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_their_name(tmp_path: Path, values: Manifest, field: str) -> None:
    done = helm(tmp_path, "template", values)
    assert done.returncode
    assert field in done.stderr


def test_other_settings_make_another_operator_pod(tmp_path: Path) -> None:
    """The operator reads them at its start only."""

    def template(values: Manifest) -> Any:
        (deployment,) = of_kind(rendered(tmp_path, values), "Deployment")
        return deployment["spec"]["template"]["metadata"]["annotations"]

    assert template({}) != template({"job": {"grace": "61s"}})
