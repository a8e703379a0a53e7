"""The objects that the operator makes for a resource."""

from __future__ import annotations

from typing import Any

import yaml

from bucketingest.spec.job_report import CompactionWork
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.merging_jobs import MergingJobs
from bucketingest_operator.manifests.settings import JobSettings
from support.operator.observations import UID, bucket_ingest, input_of

KAFKA = {
    "source": {
        "kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"], "secretRef": {"name": "kafka-credentials"}}
    },
    "format": {"type": "json", "schema": "value BIGINT"},
}


WORK = CompactionWork(compaction="20261121115000000", number=12, round=3, chunks=64, size=10**10)


SETTINGS = JobSettings(image="job:1", env_from_secrets=("lake-credentials",))


def manifests(spec: dict[str, Any] | None = None) -> MergingJobs:
    return MergingJobs(bucket_ingest(spec), "ingest", UID, SETTINGS)


def attempt_objects(made: Manifests, number: int) -> list[dict[str, Any]]:
    """The driver's pod last, as when they are created."""
    given = input_of(made.wanted)
    config_map = made.config_map(number, given)
    secret = made.rpc_secret("0123", {"metadata": {**config_map["metadata"], "uid": "config"}})
    rights = [*made.identity(), made.role(), made.role_binding()]
    return [*rights, config_map, secret, made.driver_pod(number, given)]


def pod_specs(spec: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """By role, of a pipeline that reads Kafka by default; that of an audit if the spec has one."""
    made = manifests(spec or KAFKA)
    config = made.config_map(3, input_of(made.wanted))
    specs = {
        "driver": made.driver_pod(3, input_of(made.wanted))["spec"],
        "executor": yaml.safe_load(config["data"]["executor.yaml"])["spec"],
        "rollback": made.rollback_job(3)["spec"]["template"]["spec"],
        "preflight": made.preflight_job(3, "0123456789abcdef")["spec"]["template"]["spec"],
        "compaction": made.compaction_job(WORK, "digest")["spec"]["template"]["spec"],
        "services": made.services_job()["spec"]["template"]["spec"],
    }
    if made.wanted.spec.audit is not None:
        specs["audit"] = made.audit_job(3, "0123456789abcdef")["spec"]["template"]["spec"]
    return specs
