"""Who may talk to Spark's ports, and which settings a user cannot have."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from bucketingest_operator.decide.spec_changes import cluster_problems
from bucketingest_operator.manifests.merging_jobs import MergingJobs
from bucketingest_operator.manifests.settings import JobSettings, NetworkPolicy
from support.operator.made_objects import KAFKA, SETTINGS, WORK, manifests, pod_specs
from support.operator.observations import UID, bucket_ingest, input_of


@pytest.mark.parametrize(
    "name",
    [
        "spark.kubernetes.executor.podTemplateFile",
        "spark.kubernetes.executor.volumes.hostPath.root.mount.path",
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.namespace",
        "spark.Kubernetes.Driver.Pod.Name",
        "spark.driver.host",
        "spark.authenticate",
        "spark.authenticate.secret",
        "spark.network.crypto.cipher",
        "spark.network.crypto.saslFallback",
        "spark.executorEnv._SPARK_AUTH_SECRET",
        "spark.executorEnv.JDK_JAVA_OPTIONS",
    ],
)
def test_settings_by_which_a_user_could_get_more_rights_are_refused(name: str) -> None:
    problems = cluster_problems(bucket_ingest({"spark": {"conf": {name: "x"}}}))
    assert [problem.field for problem in problems] == [f"spec.spark.conf.{name}"]


def test_settings_of_placement_and_tuning_are_allowed() -> None:
    conf = {
        "spark.kubernetes.executor.node.selector.disk": "ssd",
        "spark.sql.shuffle.partitions": "8",
        # Specs from before the operator set them.
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
    }
    assert cluster_problems(bucket_ingest({"spark": {"conf": conf}})) == ()


def test_driver_and_executors_read_the_secret_of_sparks_ports_from_a_file_and_no_other_pod_has_it() -> None:
    made = manifests(KAFKA)
    config = made.config_map(3, input_of(made.wanted))["data"]
    conf = dict(line.split(" ", 1) for line in config["spark-defaults.conf"].splitlines())
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert "spark.authenticate.secret" not in conf
    secret = made.rpc_secret("0123", {"metadata": {"name": "orders-3", "uid": "config"}})
    (key,), name = secret["data"], secret["metadata"]["name"]
    for role, spec in pod_specs().items():
        volumes = {each["name"] for each in spec["volumes"] if each.get("secret", {}).get("secretName") == name}
        mounts = {m["mountPath"] for m in spec["containers"][0]["volumeMounts"] if m["name"] in volumes}
        has = [f"{mount}/{key}" for mount in mounts] == [conf["spark.authenticate.secret.file"]]
        assert has is (role in {"driver", "executor"}), role


def test_executors_know_that_they_run_on_kubernetes_before_the_driver_tells_them() -> None:
    """Else Spark does not read the secret's file, and they end."""
    for given, value in {
        "": f"-Dspark.master={SETTINGS.master}",
        "-Xss4m": f"-Xss4m -Dspark.master={SETTINGS.master}",
    }.items():
        settings = replace(SETTINGS, env={"JDK_JAVA_OPTIONS": given} if given else {})
        made = MergingJobs(bucket_ingest(), "ingest", UID, settings)
        data = made.config_map(1, input_of(made.wanted))["data"]
        (executor,) = yaml.safe_load(data["executor.yaml"])["spec"]["containers"]
        (driver,) = made.driver_pod(1, input_of(made.wanted))["spec"]["containers"]
        assert {"name": "JDK_JAVA_OPTIONS", "value": value} in executor["env"]
        assert [each["value"] for each in driver["env"] if each["name"] == "JDK_JAVA_OPTIONS"] == [given] * bool(given)


def test_a_network_policy_lets_only_a_pipelines_own_pods_reach_sparks_ports() -> None:
    peers = ({"podSelector": {"matchLabels": {"app": "prometheus"}}},)
    for settings in (SETTINGS, JobSettings(network_policy=NetworkPolicy(metrics_from=peers))):
        made = MergingJobs(bucket_ingest(), "ingest", UID, settings)
        spec = made.network_policy()["spec"]
        own = {"podSelector": {"matchLabels": {"bucketingest.dev/uid": UID}}}
        assert {"podSelector": spec["podSelector"]} == own
        everything, http = spec["ingress"]
        assert everything == {"from": [own]}
        assert [each["port"] for each in http["ports"]] == [9808]
        assert http.get("from", []) == list(settings.network_policy.metrics_from)
    job = made.compaction_job(WORK, "digest")["spec"]["template"]
    for labels in (made.driver_pod(1, input_of(made.wanted))["metadata"]["labels"], job["metadata"]["labels"]):
        assert labels["bucketingest.dev/uid"] == UID
