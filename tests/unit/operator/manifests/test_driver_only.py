"""A pipeline without executors: the driver works alone, in its own pod, and may do nothing with the cluster."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final, cast

import pytest

from bucketingest.stream.spark.conf import session_conf
from bucketingest_operator.kube.api import Api
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Executors, PodState
from bucketingest_operator.observe.executor_probe import ExecutorProbe
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import Talk
from support.operator.made_objects import manifests
from support.operator.observations import NOW, input_of, report, resource

ALONE: Final[dict[str, Any]] = {
    "spark": {"driver": {"cores": "2500m", "memory": "512Mi"}, "executor": {"instances": 0}},
    "table": {"path": "s3://lake/orders", "recordKey": ["value"], "memoryPerTask": "64Mi"},
}
MADE: Final = manifests(ALONE)


def driver(spec: dict[str, Any]) -> dict[str, Any]:
    made = manifests(spec)
    pod: dict[str, Any] = made.driver_pod(1, input_of(made.wanted))["spec"]
    return pod


def env(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


def test_spark_runs_in_the_driver_with_a_slot_for_each_whole_core_and_tries_a_task_as_often_as_on_a_cluster() -> None:
    assert env(driver(ALONE))["MASTER"] == "local[2,4]"
    small = {**ALONE, "spark": {"driver": {"cores": "250m"}, "executor": {"instances": 0}}}
    assert env(driver(small))["MASTER"] == "local[1,4]"
    assert env(driver({}))["MASTER"].startswith("k8s://")


def test_it_has_no_right_and_loses_those_that_an_attempt_with_executors_had() -> None:
    assert MADE.role()["rules"] == []
    assert MADE.role()["metadata"]["name"] == MADE.role_binding()["roleRef"]["name"]
    assert driver(ALONE)["automountServiceAccountToken"] is False


def test_nobody_connects_to_spark() -> None:
    data = MADE.config_map(1, input_of(MADE.wanted))["data"]
    conf = dict(line.split(" ", 1) for line in data["spark-defaults.conf"].splitlines())
    assert set(conf.values()) == {"127.0.0.1"}
    assert [each["name"] for each in driver(ALONE)["containers"][0]["ports"]] == ["http"]


def test_the_heap_is_the_drivers_whatever_executors_would_have() -> None:
    conf = session_conf(MADE.wanted, "local[2,4]", [])
    assert conf["spark.driver.memory"] == "512m"
    assert conf["spark.master"] == "local[2,4]"
    assert "spark.default.parallelism" not in conf  # Spark's own: a task for each slot


def test_the_pod_has_memory_for_the_workers_of_its_slots() -> None:
    resources = driver(ALONE)["containers"][0]["resources"]
    with_executors = {**ALONE, "spark": {"driver": {"cores": "2500m", "memory": "512Mi"}}}
    before = driver(with_executors)["containers"][0]["resources"]
    added = [int(each["limits"]["memory"].removesuffix("Mi")) for each in (before, resources)]
    assert added[1] - added[0] == 2 * (64 + 256)
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


def test_what_the_pod_has_beside_the_heap_may_be_said() -> None:
    small = {**ALONE, "spark": {**ALONE["spark"], "driver": {"memory": "512Mi", "memoryOverhead": "1Gi"}}}
    assert driver(small)["containers"][0]["resources"]["limits"]["memory"] == "1536Mi"


@pytest.mark.parametrize(("instances", "asked"), [(0, 0), (1, 1)])
def test_no_executor_is_missed(instances: int, asked: int) -> None:
    """A driver that has input and no commit, and no executors."""
    created: list[object] = []

    class Recording:
        async def create(self, *arguments: object, **_: object) -> None:
            created.append(arguments)

    wanted = manifests({"spark": {"executor": {"instances": instances}}}).wanted
    began = NOW - timedelta(hours=1)
    pod = PodSeen("p", "orders-1-driver", "driver", 1, began, "Running", PodState.RUNNING, namespace="ingest")
    talk = Talk("p", report(last_commit=None))
    probe = ExecutorProbe(cast(Api, Recording()), JobSettings())
    why = asyncio.run(probe.why_none(resource(wanted), pod, talk, Executors(), NOW))
    assert (why, len(created)) == ("", asked)
