"""A deleted Secret of Spark's ports is noticed where a pod waits for it, without a right to read it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest_operator.kube.api import AlreadyExists, ApiError
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import PodState
from bucketingest_operator.observe.executor_probe import MOUNT_PATIENCE, ExecutorProbe
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import Talk
from support.operator.observations import NOW, resource

LATE = NOW - MOUNT_PATIENCE - timedelta(seconds=1)
WAITING = PodSeen(
    uid="e",
    namespace="ingest",
    name="exec-1",
    role="executor",
    attempt=1,
    created_at=LATE,
    phase="Pending",
    state=PodState.PENDING,
    mounting_since=LATE,
    rpc_secret="orders-rpc-0123",
)


class DryRuns:
    """Answers a creation that is only checked."""

    def __init__(self, answer: ApiError | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def create(self, kind: Kind, _namespace: str, body: Any, *, dry_run: bool = False) -> Any:
        assert dry_run, "nothing may be created here"
        self.asked.append(f"{kind.plural} {body['metadata']['name']}")
        if self.answer is not None:
            raise self.answer
        return body


def gone(api: DryRuns, *pods: PodSeen, times: int = 1) -> bool:
    async def ask() -> bool:
        probe, talk = ExecutorProbe(api, JobSettings()), Talk("driver")  # type: ignore[arg-type]
        answers = [await probe.secret_gone(resource(), pods, talk, NOW) for _ in range(times)]
        assert len(set(answers)) == 1
        return answers[0]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("answer", "is_gone"),
    [
        (None, True),
        (AlreadyExists("there", code=409), False),
        (ApiError("forbidden", code=403), False),
        (ApiError("no answer"), False),
    ],
)
def test_it_is_gone_if_it_could_be_created(answer: ApiError | None, is_gone: bool) -> None:
    api = DryRuns(answer)
    assert gone(api, WAITING, times=3) is is_gone
    assert api.asked == ["secrets orders-rpc-0123"], "at most once a minute"


@pytest.mark.parametrize(
    "pod",
    [
        replace(WAITING, mounting_since=None),
        replace(WAITING, mounting_since=NOW),
        replace(WAITING, terminating=True),
        replace(WAITING, rpc_secret=""),
    ],
    ids=["runs", "just created", "is deleted", "of an older operator"],
)
def test_nobody_is_asked_while_no_pod_waits_for_it(pod: PodSeen) -> None:
    api = DryRuns(None)
    assert not gone(api, pod)
    assert api.asked == []
