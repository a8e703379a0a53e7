"""The objects of an attempt: configuration, Service, rights, pods."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest
import yaml

from bucketingest.spec.quantity import format_cores, parse_cores
from bucketingest.spec.reading.load import load_text
from bucketingest_operator.manifests.attempt_input import input_annotations, parse_attempt_input
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.merging_jobs import MergingJobs
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import AttemptInput, JobState
from bucketingest_operator.observe.job_reading import CheckSeen, CompactionJobSeen, read_any_job
from bucketingest_operator.observe.ownership import Controller
from support.operator.made_objects import KAFKA, WORK, attempt_objects, manifests, pod_specs
from support.operator.observations import NOW, UID, bucket_ingest, input_of

AUDIT: Final = {"against": "postgres://u@db/shop", "window": {"start": "03:00", "duration": "3h"}}


def test_a_driver_is_ready_as_soon_as_it_answers() -> None:
    """Spark makes executors only then, or a second later; Ready as long as input is ingested is the resource's word."""
    (container,) = pod_specs()["driver"]["containers"]
    assert "readinessProbe" not in container
    assert container["startupProbe"]["periodSeconds"] == 1
    assert container["startupProbe"]["failureThreshold"] == 600


def test_the_job_reads_back_the_resource_it_was_made_for() -> None:
    made = manifests(KAFKA)
    text = made.config_map(3, input_of(made.wanted))["data"]["bucketingest.yaml"]
    assert load_text(text) == made.wanted


def test_an_older_job_gets_no_field_that_the_user_did_not_set() -> None:
    made = manifests()
    spec = yaml.safe_load(made.config_map(3, input_of(made.wanted))["data"]["bucketingest.yaml"])["spec"]
    assert set(spec) == {"source", "table", "upgrade"}
    assert spec["upgrade"] == {"preflight": False}  # of this test's spec
    assert set(spec["table"]) == {"path", "recordKey"}
    (driver,) = pod_specs()["driver"]["containers"]
    assert {"name": "BUCKETINGEST_UNKNOWN_FIELDS", "value": "ignore"} in driver["env"]


def pods_with(spec: dict[str, Any], settings: JobSettings | None = None) -> dict[str, dict[str, Any]]:
    """Every pod that a pipeline has."""
    example = manifests({"audit": AUDIT, **spec})
    made = Manifests(example.wanted, example.namespace, example.uid, settings or example.settings)
    merging = MergingJobs(made.wanted, made.namespace, made.uid, made.settings)

    return {
        "driver": made.driver_pod(1, input_of(made.wanted))["spec"],
        "executor": made.executor_example(1)["spec"],
        "rollback": made.rollback_job(1)["spec"]["template"]["spec"],
        "preflight": made.preflight_job(1, "digest")["spec"]["template"]["spec"],
        "compaction": merging.compaction_job(WORK, "digest")["spec"]["template"]["spec"],
        "services": merging.services_job()["spec"]["template"]["spec"],
        "audit": merging.audit_job(1, "digest")["spec"]["template"]["spec"],
    }


def containers(spec: dict[str, Any], settings: JobSettings | None = None) -> dict[str, dict[str, Any]]:
    """Resources of the container of each."""
    return {name: pod["containers"][0]["resources"] for name, pod in pods_with(spec, settings).items()}


def test_every_pod_has_what_the_installer_chooses_for_all() -> None:
    settings = JobSettings(
        run_as_user=None, scheduler_name="yunikorn", runtime_class_name="gvisor", ephemeral_storage="20Gi"
    )
    for pod in pods_with({}, settings).values():
        assert (pod["schedulerName"], pod["runtimeClassName"]) == ("yunikorn", "gvisor")
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for resources in containers({}, settings).values():
        assert resources["requests"]["ephemeral-storage"] == resources["limits"]["ephemeral-storage"] == "20Gi"
    template = Manifests(bucket_ingest(), "ingest", UID, settings).config_map(1, input_of(bucket_ingest()))
    assert "ephemeral-storage: 20Gi" in template["data"]["executor.yaml"]


def test_a_cpu_limit_holds_for_every_pod_and_is_not_below_what_it_requests() -> None:
    assert {"cpu" in each["limits"] for each in containers({}).values()} == {False}
    spec = {"pod": {"cpuLimit": "1500m"}, "spark": {"executor": {"cores": "4"}}}
    limits = {name: each["limits"]["cpu"] for name, each in containers(spec).items()}
    assert limits.pop("executor") == "4000m"
    assert limits == {
        name: format_cores(max(1500, parse_cores(containers(spec)[name]["requests"]["cpu"]))) for name in limits
    }
    conf = manifests(spec).config_map(1, input_of(manifests(spec).wanted))["data"]["spark-defaults.conf"]
    assert "spark.kubernetes.executor.limit.cores 4000m" in conf


def test_no_number_of_lost_or_refused_executors_ends_a_driver() -> None:
    """Spark would end it after three of its whole life, or twice as many as it starts with."""
    made = manifests(KAFKA)
    conf = made.config_map(1, input_of(made.wanted))["data"]["spark-defaults.conf"].splitlines()
    assert "spark.executor.failuresValidityInterval 1h" in conf
    assert "spark.executor.maxNumFailures 2147483647" in conf


def test_every_pod_requests_all_of_its_memory() -> None:
    for name, each in containers({}).items():
        assert each["requests"]["memory"] == each["limits"]["memory"], name


def test_the_same_arguments_make_the_same_objects_and_the_driver_comes_last() -> None:
    first, second = attempt_objects(manifests(), 3), attempt_objects(manifests(), 3)
    assert json.dumps(first) == json.dumps(second)
    assert [each["kind"] for each in first][-1] == "Pod"


def test_names_are_those_of_the_resource_and_the_attempt_and_fit_kubernetes_and_spark() -> None:
    names = Names("a" * 52, UID)
    assert len(names.attempt(10**9)) <= 47
    assert len(names.driver(10**9)) <= 63
    assert Names("orders", UID).driver(1) != Names("orders", "another").driver(1)
    assert names.driver(1) != names.driver(2)


_VOLUMES = {"configMap", "downwardAPI", "emptyDir", "projected", "secret"}


@pytest.mark.parametrize("role", ["driver", "executor", "rollback", "preflight", "compaction"])
def test_every_pod_fits_the_restricted_standard(role: str) -> None:
    spec = pod_specs()[role]
    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert all(set(volume) - {"name"} <= _VOLUMES for volume in spec["volumes"])
    for container in spec["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True


def test_spark_finds_its_scratch_space_in_the_executors_template_and_mounts_no_second_one_there() -> None:
    specs = pod_specs()
    env = {each["name"]: each.get("value") for each in specs["driver"]["containers"][0]["env"]}
    mounts = {each["mountPath"]: each["name"] for each in specs["executor"]["containers"][0]["volumeMounts"]}
    assert mounts[env["SPARK_LOCAL_DIRS"]].startswith("spark-local-dir-")


def test_only_the_driver_may_speak_with_kubernetes_and_only_about_pods() -> None:
    assert {role: spec["automountServiceAccountToken"] for role, spec in pod_specs().items()} == {
        "driver": True,
        "executor": False,
        "rollback": False,
        "preflight": False,
        "compaction": False,
        "services": False,
    }
    assert [rule["resources"] for rule in manifests().role()["rules"]] == [["pods"]]


def test_every_pod_has_the_credentials_for_storage() -> None:
    for spec in pod_specs().values():
        names = [each["secretRef"]["name"] for each in spec["containers"][0]["envFrom"]]
        assert names == ["lake-credentials"]


def test_the_secret_of_the_source_is_mounted_into_the_driver_and_the_check_of_a_spec_alone() -> None:
    found = {role: "kafka-credentials" in json.dumps(spec) for role, spec in pod_specs().items()}
    without = {"executor": False, "rollback": False, "compaction": False, "services": False}
    assert found == {"driver": True, "preflight": True, **without}


def test_a_pod_outlives_the_grace_of_its_job() -> None:
    made = Manifests(bucket_ingest(), "ingest", UID, JobSettings(grace=timedelta(seconds=90)))
    spec = made.driver_pod(1, input_of(made.wanted))["spec"]
    env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert env["BUCKETINGEST_GRACE"] == "1m30s"
    assert spec["terminationGracePeriodSeconds"] > 90


def test_a_driver_knows_which_drivers_before_it_have_ended() -> None:
    made = manifests()
    for ended in ((), ("orders-1-driver", "orders-2-driver")):
        spec = made.driver_pod(3, input_of(made.wanted), ended)["spec"]
        env = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
        assert env.get("BUCKETINGEST_ENDED_DRIVERS") == (",".join(ended) or None)


def test_executors_find_the_driver_of_their_own_attempt_which_alone_owns_them() -> None:
    made = manifests()
    attempt_input = input_of(made.wanted)
    conf = dict(
        line.split(" ", 1)
        for line in made.config_map(3, attempt_input)["data"]["spark-defaults.conf"].splitlines()
        if line
    )
    pod = made.driver_pod(3, attempt_input)
    assert "spark.driver.host" not in conf, "Spark takes it from the environment"
    assert conf["spark.kubernetes.executor.useDriverPodIP"] == "false", "that would be the address it binds to"
    (host,) = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == "SPARK_LOCAL_HOSTNAME"]
    assert host["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert conf["spark.kubernetes.driver.pod.name"] == pod["metadata"]["name"]


def test_the_driver_pod_has_room_for_its_heap() -> None:
    limits = pod_specs()["driver"]["containers"][0]["resources"]["limits"]
    assert int(limits["memory"].removesuffix("Mi")) > 2048


def test_the_driver_pod_has_room_for_table_services_where_they_run() -> None:
    def memory(spec: dict[str, Any]) -> int:
        made = manifests(spec)
        pod = made.driver_pod(1, input_of(made.wanted))["spec"]
        return int(pod["containers"][0]["resources"]["limits"]["memory"].removesuffix("Mi"))

    assert memory({}) == memory({"services": {"mode": "off"}}) + 1024


def test_everything_is_owned_by_the_resource_alone_but_the_secret_which_goes_with_the_attempt() -> None:
    made = manifests()
    jobs = [made.rollback_job(1), made.preflight_job(1, "digest")]
    for each in [*attempt_objects(made, 1), *jobs, made.network_policy()]:
        owner = "config" if each["kind"] == "Secret" else UID
        assert [found["uid"] for found in each["metadata"]["ownerReferences"]] == [owner]


def test_the_input_of_an_attempt_survives_being_annotations() -> None:
    attempt_input = AttemptInput("a", "b", "now!", (NOW - timedelta(seconds=5), NOW))
    assert parse_attempt_input(input_annotations(attempt_input)) == attempt_input
    assert parse_attempt_input({}) is None
    assert parse_attempt_input({**input_annotations(attempt_input), "bucketingest.dev/failures": "soon"}) is None


def test_the_job_that_checks_a_spec_is_tried_once_within_a_time_and_has_the_spec_itself() -> None:
    made = manifests(KAFKA)
    job = made.preflight_job(3, "0123456789abcdef")
    assert job["metadata"]["name"] == made.names.preflight("0123456789abcdef")
    assert job["spec"]["backoffLimit"] == 0
    assert 0 < job["spec"]["activeDeadlineSeconds"] <= 600
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    template = job["spec"]["template"]
    assert load_text(template["metadata"]["annotations"]["bucketingest.dev/spec"]) == made.wanted
    (container,) = template["spec"]["containers"]
    assert container["args"] == ["validate", "--connect", "/etc/bucketingest/bucketingest.yaml"]
    assert container["image"] == "job:1"
    config = next(each for each in template["spec"]["volumes"] if each["name"] == "config")
    (item,) = config["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['bucketingest.dev/spec']"
    driver = pod_specs()["driver"]
    assert template["spec"]["serviceAccountName"] == driver["serviceAccountName"]
    same = [each for each in driver["volumes"] if each["name"] == "source-options"]
    assert [each for each in template["spec"]["volumes"] if each["name"] == "source-options"] == same != []


def test_names_of_checks_fit_kubernetes_and_differ_with_the_spec() -> None:
    names = Names("a" * 52, UID)
    assert len(names.preflight("0123456789abcdef")) + len("-12345") <= 63
    assert names.preflight("0" * 16) != names.preflight("1" * 16)


def test_the_pods_of_a_compaction_share_its_round_and_have_no_right_on_the_cluster() -> None:
    job = manifests({"services": {"compaction": {"job": {"parallelism": 5, "memory": "3Gi"}}}}).compaction_job(
        WORK, "digest"
    )
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 5, 5)
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["args"] == ["compact-round", "s3://lake/orders", "--number", "12", "--round", "3", "--of", "5"]
    assert container["resources"]["limits"] == {"memory": "3072Mi"}
    assert container["envFrom"] == [{"secretRef": {"name": "lake-credentials", "optional": True}}]
    labels = spec["template"]["metadata"]["labels"]
    assert labels["bucketingest.dev/role"] == "compaction"
    assert "bucketingest.dev/attempt" not in labels, "it would count as a driver's"
    assert len(job["metadata"]["name"]) <= 63 - len("-99-abcde"), "Kubernetes makes the pods' names from it"


def test_more_pods_than_chunks_are_not_made() -> None:
    few = WORK.model_copy(update={"chunks": 1})
    assert manifests().compaction_job(few, "digest")["spec"]["completions"] == 1


def test_the_job_of_a_suspended_resource_has_its_spec_and_ends_where_the_table_is_held() -> None:
    made = manifests({**KAFKA, "services": {"whileSuspended": True, "compaction": {"job": {"deadline": "2h"}}}})
    job = made.services_job()
    template, spec = job["spec"]["template"], job["spec"]
    assert (spec["activeDeadlineSeconds"], "ttlSecondsAfterFinished" in spec) == (7200, False)
    (_, held) = spec["podFailurePolicy"]["rules"]
    assert (held["action"], held["onExitCodes"]["values"]) == ("FailJob", [13])
    (container,) = template["spec"]["containers"]
    assert held["onExitCodes"]["containerName"] == container["name"]
    assert container["args"] == ["services", "/etc/bucketingest/bucketingest.yaml"]
    assert "whileSuspended: true" in template["metadata"]["annotations"]["bucketingest.dev/spec"]
    assert template["spec"]["automountServiceAccountToken"] is False
    assert "bucketingest.dev/attempt" not in template["metadata"]["labels"], "it would count as a driver's"
    job["metadata"] |= {"creationTimestamp": "2026-11-21T12:00:00Z", "uid": "job-1"}
    seen = read_any_job(job)
    assert isinstance(seen, CompactionJobSeen)
    assert (seen.job.does_all, seen.job.name) == (True, made.names.services)


def test_the_job_of_an_audit_has_its_spec_its_limit_of_time_and_alone_the_password() -> None:
    window = {"start": "03:00", "duration": "3h"}
    asked = {
        "against": "postgres://auditor@db/shop",
        "passwordFrom": {"secretKeyRef": {"name": "auditor", "key": "password"}},
        "window": window,
        "table": "inv.orders",
        "columns": ["price", "amount"],
        "settle": "5m",
    }
    made = manifests({**KAFKA, "audit": asked})
    job = made.audit_job(3, "digest")
    template, spec = job["spec"]["template"], job["spec"]
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (10800, 0)
    assert "ttlSecondsAfterFinished" not in spec, "it says when the last audit was"
    (container,) = template["spec"]["containers"]
    options = ["--against", "postgres://auditor@db/shop", "--table", "inv.orders", "--columns", "price,amount"]
    times = ["--pause", "0s", "--statement-timeout", "1m", "--settle", "5m"]
    assert container["args"] == ["audit", "/etc/bucketingest/bucketingest.yaml", *options, *times]
    secret = {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "auditor", "key": "password"}}}
    assert secret in container["env"]
    others = [made.driver_pod(3, input_of(made.wanted)), made.services_job(), made.rollback_job(3)]
    assert "PGPASSWORD" not in json.dumps(others)
    assert template["metadata"]["annotations"]["bucketingest.dev/spec"]
    assert template["spec"]["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("BucketIngest", True)
    job["metadata"] |= {"creationTimestamp": "2026-11-21T12:00:00Z", "uid": "job-1"}
    seen = read_any_job(job)
    assert isinstance(seen, CheckSeen)
    assert (seen.role, seen.job.digest, seen.job.state) == ("audit", "digest", JobState.RUNNING)
    job["metadata"]["labels"]["bucketingest.dev/role"] = "preflight"
    assert read_any_job(job) is None, "the annotation belongs to the role"


def test_a_compactions_job_reads_back() -> None:
    job = manifests().compaction_job(WORK, "digest")
    job["metadata"] |= {"creationTimestamp": "2026-11-21T12:00:00Z", "uid": "job-1"}
    job["status"] = {"active": 2, "ready": 1}
    seen = read_any_job(job)
    assert isinstance(seen, CompactionJobSeen)
    assert (seen.namespace, seen.controller) == (job["metadata"]["namespace"], Controller("BucketIngest", UID))
    found = seen.job
    assert (found.number, found.round, found.digest) == (12, 3, "digest")
    assert (found.state, found.active, found.ready) == (JobState.RUNNING, 2, 1)
    ended = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-21T12:05:00Z", "message": "x" * 999}
    job["status"] = {"conditions": [{"type": "FailureTarget", "status": "True"}, ended]}
    seen = read_any_job(job)
    assert isinstance(seen, CompactionJobSeen)
    found = seen.job
    assert (found.state, found.finished_at) == (JobState.FAILED, NOW + timedelta(minutes=5))
    assert len(found.message) < 500
    job["metadata"]["annotations"] = {}
    assert read_any_job(job) is None
