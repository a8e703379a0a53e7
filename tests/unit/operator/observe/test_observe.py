"""How an observation presents pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bucketingest_operator.decide.plan import DeleteDriver
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import (
    CheckJob,
    CompactionJob,
    Executors,
    JobState,
    Observation,
    PodReason,
    PodState,
)
from bucketingest_operator.observe.executor_probe import MOUNT_PATIENCE
from bucketingest_operator.observe.job_reading import AnyJob, CheckSeen, CompactionJobSeen, ConfigSeen, JobSeen
from bucketingest_operator.observe.observe import (
    Look,
    Observer,
    attempt_inputs,
    driver,
    executors,
    is_unreachable,
    newest_attempt,
    own,
)
from bucketingest_operator.observe.ownership import Controller
from bucketingest_operator.observe.pod_reading import EndedDrivers, PodSeen
from bucketingest_operator.observe.readers import Readers, Unreadable
from support.operator.observations import NOW, UID, attempt, bucket_ingest, input_of, resource, status_with


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
        configs=[ConfigSeen(2, second, namespace="ingest"), ConfigSeen(4, None, namespace="ingest")],
        live=True,
    )
    assert attempt_inputs(look) == {1: first, 2: second}


def test_of_drivers_that_are_gone_those_are_known_whose_end_was_reported() -> None:
    known = EndedDrivers()
    over = pod(1, state=PodState.FAILED, finished_at=NOW, controller=MINE)
    unsure = {"state": PodState.RUNNING}, {"finished_at": None}, {"controller": None}, {"role": "executor"}
    for changes in unsure:
        known.note(UID, replace(over, **changes))
    assert known.of(UID) == ()
    for number in range(9):
        known.note(UID, replace(over, name=str(number)))
    assert known.of(UID)[-1] == "8"
    assert len(known.of(UID)) < 9
    known.forget(UID)
    assert known.of(UID) == ()


MINE = Controller("BucketIngest", UID)
DRIVER = pod(1, controller=MINE)
JOB = JobSeen("j", 1, JobState.RUNNING, terminating=False, message="", uid="job-1", namespace="ingest", controller=MINE)
COMPACTION = CompactionJobSeen(
    CompactionJob("c", 3, 1, "digest", JobState.RUNNING, NOW), namespace="ingest", controller=MINE
)
CONFIG = ConfigSeen(1, None, namespace="ingest", controller=MINE)
EXECUTOR = pod(1, "executor", controller=Controller("Pod", DRIVER.uid))
ROLLBACK = pod(1, "rollback", controller=Controller("Job", JOB.uid))
CHECK = CheckSeen(
    CheckJob("p", "check-1", "digest", JobState.RUNNING, NOW), "preflight", namespace="ingest", controller=MINE
)
CHECKING = pod(1, "preflight", controller=Controller("Job", CHECK.job.uid))
MERGING = pod(0, "compaction", controller=Controller("Job", COMPACTION.job.uid))


def test_the_objects_of_a_resource_are_those_that_it_controls() -> None:
    look = Look([DRIVER, EXECUTOR, ROLLBACK, CHECKING, MERGING], [JOB, COMPACTION, CHECK], [CONFIG], live=True)
    assert own(resource(), look) == look


@pytest.mark.parametrize(
    "forged",
    [
        replace(DRIVER, uid="x", controller=None),
        replace(DRIVER, uid="x", namespace="elsewhere"),
        replace(DRIVER, uid="x", controller=Controller("BucketIngest", "another")),
        replace(DRIVER, uid="x", controller=Controller("Deployment", UID)),
        replace(EXECUTOR, uid="x", controller=Controller("Pod", "another")),
        replace(EXECUTOR, uid="x", namespace="elsewhere"),
        replace(ROLLBACK, uid="x", controller=MINE),
        replace(CHECKING, uid="x", controller=MINE),
        replace(MERGING, uid="x", controller=MINE),
        replace(CHECK, controller=None),
        replace(CHECK, namespace="elsewhere"),
        replace(JOB, uid="x", controller=None),
        replace(JOB, uid="x", namespace="elsewhere"),
        replace(COMPACTION, controller=None),
        replace(COMPACTION, namespace="elsewhere"),
        replace(COMPACTION, controller=Controller("BucketIngest", "another")),
        replace(CONFIG, attempt=7, namespace="elsewhere"),
        replace(CONFIG, attempt=7, controller=None),
    ],
)
def test_what_only_carries_the_labels_counts_for_nothing(forged: PodSeen | AnyJob | ConfigSeen) -> None:
    honest = Look([DRIVER, EXECUTOR, ROLLBACK, CHECKING, MERGING], [JOB, COMPACTION, CHECK], [CONFIG], live=True)
    found = own(
        resource(),
        Look(
            [*honest.pods, *([forged] if isinstance(forged, PodSeen) else [])],
            [*honest.jobs, *([forged] if isinstance(forged, JobSeen | CompactionJobSeen | CheckSeen) else [])],
            [*honest.configs, *([forged] if isinstance(forged, ConfigSeen) else [])],
            live=True,
        ),
    )
    assert found == honest


class Listing:
    """An API server that has these pods."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self._found = list(found)

    async def pages(self, *_: object) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        yield self._found, "1"


def test_a_live_look_leaves_out_objects_with_our_label_that_are_not_of_our_making() -> None:
    """Anybody may set the label; a look that fails on such an object would end every pass over the resource."""
    foreign = {"metadata": {"name": "x", "namespace": "ingest", "uid": "x", "labels": {"bucketingest.dev/uid": UID}}}
    copies = SimpleNamespace(
        pods=SimpleNamespace(of=lambda _uid: (DRIVER,)),
        jobs=SimpleNamespace(of=lambda _uid: (JOB,)),
        configs=SimpleNamespace(of=lambda _uid: (CONFIG,)),
    )
    observer = Observer(
        cast("Any", Listing(foreign)),
        cast("Any", None),
        cast("Any", None),
        {None: cast("Any", copies)},
        cast("Any", None),
        readers=Readers(Unreadable()),
    )
    found = asyncio.run(observer.look(resource(), live=True))
    assert found == Look([], [JOB], [CONFIG], live=True), "only pods are looked at live"


def test_a_driver_whose_node_does_not_report_its_end_is_lost_after_the_time_that_the_spec_allows() -> None:
    patient, opted = resource(), resource(bucket_ingest({"restart": {"unreachableAfter": "10m"}}))
    ended = replace(pod(), terminating=True, should_end_at=NOW - timedelta(minutes=10))
    assert is_unreachable(opted, ended, NOW)
    assert not is_unreachable(opted, ended, NOW - timedelta(seconds=1))
    assert not is_unreachable(opted, replace(ended, should_end_at=None), NOW)
    assert not is_unreachable(patient, ended, NOW)
    lost = driver(ended, NOW, node_gone=True)
    deleted = reconcile(Observation(NOW, replace(opted, deleting=True), drivers=(lost,)))
    assert any(isinstance(each, DeleteDriver) and each.force for each in deleted.actions)
