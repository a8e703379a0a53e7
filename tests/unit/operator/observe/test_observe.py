"""How an observation presents pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bucketingest_operator.observation import Executors, PodReason, PodState
from bucketingest_operator.observe.job_reading import ConfigSeen
from bucketingest_operator.observe.observe import (
    MOUNT_PATIENCE,
    Look,
    attempt_inputs,
    driver,
    executors,
    newest_attempt,
)
from bucketingest_operator.observe.pod_reading import PodSeen
from support.operator.observations import NOW, attempt, bucket_ingest, input_of, resource, status_with


def pod(number: int = 1, role: str = "driver", **changes: Any) -> PodSeen:
    found = PodSeen(
        uid=f"{role}-{number}",
        namespace="ingest",
        name=f"orders-{number}-{role}",
        role=role,
        attempt=number,
        created_at=NOW - timedelta(seconds=60),
        phase="Running",
        state=PodState.RUNNING,
    )
    return replace(found, **changes)


def test_the_newest_attempt_is_the_newest_that_status_or_pods_know_of() -> None:
    assert newest_attempt(resource(), []) == 0
    assert newest_attempt(resource(), [pod(2), pod(7, "executor")]) == 2
    known = resource(status=status_with(attempt(4)))
    assert newest_attempt(known, [pod(2)]) == 4


def test_executors_are_those_of_the_current_attempt() -> None:
    pods = [
        pod(3, "executor", name="a"),
        pod(3, "executor", name="b", phase="Pending", reason=PodReason.UNSCHEDULABLE, message="0/3 nodes"),
        pod(3, "executor", name="c", phase="Pending"),
        pod(3, "executor", name="d", phase="Failed"),
        pod(3, "executor", name="e", terminating=True),
        pod(2, "executor", name="f"),
        pod(3, "driver"),
    ]
    assert executors(pods, 3) == Executors(1, 2, "0/3 nodes")
    assert executors([], 3) == Executors()


def test_a_pod_whose_volumes_never_come_lacks_something() -> None:
    waiting = pod(state=PodState.PENDING, phase="Pending", mounting_since=NOW - MOUNT_PATIENCE)
    assert driver(waiting, NOW).reason is PodReason.NONE
    late = driver(waiting, NOW + timedelta(seconds=1))
    assert late.reason is PodReason.CONFIG
    assert "volumes" in late.message
    image = replace(waiting, reason=PodReason.IMAGE_PULL)
    assert driver(image, NOW + timedelta(hours=1)).reason is PodReason.IMAGE_PULL


def test_an_attempts_input_comes_from_its_config_map_or_else_from_its_pod() -> None:
    first, second = input_of(bucket_ingest(), "pod"), input_of(bucket_ingest(), "config")
    look = Look(
        pods=[pod(1, attempt_input=first), pod(2, attempt_input=first), pod(3)],
        jobs=[],
        configs=[ConfigSeen(2, second), ConfigSeen(4, None)],
        live=True,
    )
    assert attempt_inputs(look) == {1: first, 2: second}
