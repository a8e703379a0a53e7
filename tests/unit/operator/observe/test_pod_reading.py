"""Reading a pod's JSON: whether a driver can still run, and why it does not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bucketingest_operator.manifests.attempt_input import input_annotations
from bucketingest_operator.observation import PodReason, PodState
from bucketingest_operator.observe.pod_reading import read_pod
from support.operator.observations import UID, bucket_ingest, input_of, termination

RUNNING = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}


def ended(code: int, **fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": "2026-11-21T12:05:00Z", **fields}}


def container(state: dict[str, Any], name: str = "driver") -> dict[str, Any]:
    return {"name": name, "state": state}


def pod(role: str = "driver", *, metadata: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "p1",
            "namespace": "ingest",
            "name": "orders-1-driver",
            "creationTimestamp": "2026-11-21T11:59:00Z",
            "labels": {
                "bucketingest.dev/uid": UID,
                "bucketingest.dev/attempt": "3",
                "bucketingest.dev/role": role,
            },
            **(metadata or {}),
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }


def seen(**status: Any) -> Any:
    found = read_pod(pod(**status))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, PodState.PENDING),
        ({"phase": "Pending"}, PodState.PENDING),
        ({"phase": "Running", "containerStatuses": [container(RUNNING)]}, PodState.RUNNING),
        ({"phase": "Unknown"}, PodState.RUNNING),
        ({"phase": "Succeeded", "containerStatuses": [container(ended(0))]}, PodState.SUCCEEDED),
        ({"phase": "Failed", "containerStatuses": [container(ended(1))]}, PodState.FAILED),
        # The node, or the collector of lost nodes' pods, has set the phase, and the process may still run.
        ({"phase": "Failed", "containerStatuses": [container(RUNNING)]}, PodState.RUNNING),
        (
            {"phase": "Failed", "containerStatuses": [container(ended(0)), container(RUNNING, "mesh")]},
            PodState.FAILED,
        ),
        (
            {
                "phase": "Succeeded",
                "containerStatuses": [container(ended(0))],
                "initContainerStatuses": [container(RUNNING, "sidecar")],
            },
            PodState.SUCCEEDED,
        ),
        # Its node refused it: its containers never ran.
        ({"phase": "Failed", "reason": "OutOfcpu"}, PodState.FAILED),
        ({"phase": "Failed", "containerStatuses": [container(WAITING)]}, PodState.FAILED),
    ],
)
def test_a_pod_has_ended_only_when_its_jobs_container_cannot_run(status: dict[str, Any], state: PodState) -> None:
    assert seen(**status).state is state


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [container(state)]}


def condition(kind: str, value: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "status": value, **fields}


@pytest.mark.parametrize(
    ("policy", "statuses", "state"),
    [
        ("Never", [ended(137), ended(0)], PodState.FAILED),
        ("Never", [ended(0), ended(0)], PodState.SUCCEEDED),
        ("Never", [ended(137), RUNNING], PodState.FAILED),
        ("Never", [ended(0), RUNNING], PodState.SUCCEEDED),
        ("Never", [ended(0), ended(1)], PodState.SUCCEEDED),
        ("Never", [RUNNING, ended(0)], PodState.RUNNING),
        ("Never", [ended(137), WAITING], PodState.FAILED),
        ("Always", [ended(137), ended(0)], PodState.RUNNING),
    ],
)
def test_the_end_of_the_drivers_container_is_the_end_whatever_the_phase_and_others_say(
    policy: str, statuses: list[dict[str, Any]], state: PodState
) -> None:
    names = ("driver", "mesh")
    now = pod(phase="Running", containerStatuses=list(map(container, statuses, names)))
    now["spec"] |= {"restartPolicy": policy, "containers": [{"name": name} for name in names]}
    found = read_pod(now)
    assert found is not None
    assert found.state is state


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (waiting("ImagePullBackOff", "no such image"), PodReason.IMAGE_PULL, "ImagePullBackOff: no such image"),
        (waiting("ErrImagePull"), PodReason.IMAGE_PULL, "ErrImagePull"),
        (waiting("InvalidImageName"), PodReason.IMAGE_PULL, "InvalidImageName"),
        (waiting("CreateContainerConfigError", "secret x"), PodReason.CONFIG, "secret x"),
        (waiting("ContainerCreating"), PodReason.NONE, ""),
        (
            {"phase": "Pending", "conditions": [condition("PodScheduled", "False", message="0/3 nodes")]},
            PodReason.UNSCHEDULABLE,
            "0/3 nodes",
        ),
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "too big"}, PodReason.UNSCHEDULABLE, "too big"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, PodReason.EVICTED, "disk"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, PodReason.DEADLINE, "DeadlineExceeded"),
        (
            {"phase": "Failed", "containerStatuses": [container(ended(137, reason="OOMKilled"))]},
            PodReason.OOM_KILLED,
            "driver",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [container(ended(0))],
                "conditions": [condition("DisruptionTarget", "True", message="preempted by x")],
            },
            PodReason.EVICTED,
            "preempted by x",
        ),
        # It will be evicted, and still runs.
        (
            {
                "phase": "Running",
                "containerStatuses": [container(RUNNING)],
                "conditions": [condition("DisruptionTarget", "True")],
            },
            PodReason.NONE,
            "",
        ),
        ({"phase": "Failed", "containerStatuses": [container(ended(1, reason="Error"))]}, PodReason.NONE, ""),
    ],
)
def test_the_reason_is_the_one_that_a_user_can_act_on(status: dict[str, Any], reason: PodReason, words: str) -> None:
    found = seen(**status)
    assert found.reason is reason
    assert words in found.message


def test_the_end_of_the_job_is_read_from_its_own_container_and_message() -> None:
    report = termination(9, "Spark ended the query.")
    mesh = container(ended(0, finishedAt="2026-11-21T12:05:30Z"), "mesh")
    own = container(ended(9, message=report.model_dump_json(by_alias=True)))
    found = seen(phase="Failed", containerStatuses=[mesh, own])
    assert found.exit_code == 9
    assert found.report == report
    assert found.finished_at == datetime(2026, 11, 21, 12, 5, 30, tzinfo=UTC)


@pytest.mark.parametrize("message", ["java.lang.Error: x\nat y", '{"half', '{"exitCode": 1}', "", "[]"])
def test_what_is_not_a_termination_message_is_ignored(message: str) -> None:
    assert seen(phase="Failed", containerStatuses=[container(ended(1, message=message))]).report is None


def test_the_last_line_of_a_log_is_shown_without_its_secrets() -> None:
    log = "first\ncannot log in: password=hunter2secret\n\n"
    found = seen(phase="Failed", containerStatuses=[container(ended(1, message=log))])
    assert found.message == "cannot log in: password=***"


@pytest.mark.parametrize(
    ("code", "log", "message"),
    [
        (137, '{"event": "committed"}', "The driver was killed (SIGKILL)."),
        (
            1,
            '{"event": "first"}\n{"event": "cannot start", "error": "no Java", "level": "error"}',
            "cannot start: no Java",
        ),
        (1, '{"level": "info"}', ""),
        (1, "[1]", ""),
        (1, '{"half', '{"half'),
    ],
)
def test_the_end_of_a_log_is_its_last_line(code: int, log: str, message: str) -> None:
    assert seen(phase="Failed", containerStatuses=[container(ended(code, message=log))]).message == message


def test_long_messages_are_cut() -> None:
    assert len(seen(**waiting("ErrImagePull", "x" * 5000)).message) < 500


def test_a_lost_node_gives_no_end_time() -> None:
    state = ended(137, reason="ContainerStatusUnknown", finishedAt="1970-01-01T00:00:00Z")
    assert seen(phase="Failed", containerStatuses=[container(state)]).finished_at is None


def test_a_driver_carries_its_input() -> None:
    attempt_input = input_of(bucket_ingest(), "again")
    found = read_pod(pod(metadata={"annotations": input_annotations(attempt_input)}))
    assert found is not None
    assert found.attempt_input == attempt_input


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"bucketingest.dev/role": "driver"},
        {"bucketingest.dev/role": "driver", "bucketingest.dev/attempt": "-1"},
        {"bucketingest.dev/role": "driver", "bucketingest.dev/attempt": "²"},
        {"bucketingest.dev/role": "nurse", "bucketingest.dev/attempt": "1"},
    ],
)
def test_pods_with_other_labels_are_ignored(labels: dict[str, str]) -> None:
    assert read_pod(pod(metadata={"labels": labels})) is None


@pytest.mark.parametrize(
    ("ready", "since"),
    [("False", datetime(2026, 11, 21, 11, 59, 1, tzinfo=UTC)), ("True", None)],
)
def test_a_pod_that_waits_for_volumes_says_since_when(ready: str, since: datetime | None) -> None:
    conditions = [
        condition("PodScheduled", "True", lastTransitionTime="2026-11-21T11:59:01Z"),
        condition("PodReadyToStartContainers", ready),
    ]
    assert seen(phase="Pending", conditions=conditions).mounting_since == since
