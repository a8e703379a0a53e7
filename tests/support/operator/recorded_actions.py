"""Carries out actions against an API that records its calls, and fails as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bucketingest.spec.job_report import CompactionWork
from bucketingest_operator.act import Actor
from bucketingest_operator.decide.plan import (
    Action,
    CreateCompaction,
    EmitEvent,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.kube.api import ApiError
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Refusal
from support.operator.observations import attempt, bucket_ingest, input_of, resource, status_with

WANTED = bucket_ingest()


STATUS = WriteStatus(status_with(attempt(1)), "1")


START = StartAttempt(1, input_of(WANTED), WANTED)


WORK = CompactionWork(compaction="20261121115000000", number=3, round=1, chunks=4, size=10**10)


COMPACT = CreateCompaction(WORK, "digest", WANTED)


EVENT = EmitEvent("Normal", "AttemptStarting", "Starting attempt 1.", "1")


class RecordingApi:
    """Records its calls, and fails as a test says: by the verb and the kind, always or the first times."""

    def __init__(self, **failures: ApiError | list[ApiError]) -> None:
        self.kept_status: dict[str, Any] | None = None
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.uids: list[str] = []
        """Which UID each deletion demanded."""
        self.failures = failures
        self.version = 1
        self.config_maps: list[dict[str, Any]] = []

    def _called(self, verb: str, kind: Kind, name: str, body: Any = None) -> dict[str, Any]:
        self.calls.append(f"{verb} {kind.plural} {name}")
        self.bodies.append(body)
        if failure := self.failures.get(f"{verb}_{kind.plural}"):
            raise failure.pop(0) if isinstance(failure, list) else failure
        self.version += 1
        return {"metadata": {"name": name, "uid": f"uid-{self.version}", "resourceVersion": str(self.version)}}

    async def get(self, kind: Kind, _namespace: str, name: str) -> Any:
        return self._called("get", kind, name)

    async def create(self, kind: Kind, _namespace: str, body: Any) -> Any:
        return self._called("create", kind, body["metadata"]["name"], body)

    async def apply(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        return self._called("apply", kind, name, body)

    async def replace(self, kind: Kind, _namespace: str, name: str, body: Any, part: str | None = None) -> Any:
        return {**self._called("replace", kind, f"{name}/{part}", body), "status": self.kept_status or body["status"]}

    async def patch(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        return self._called("patch", kind, name, body)

    async def delete(self, kind: Kind, _namespace: str, name: str, *, uid: str = "", grace: int | None = None) -> None:
        self.uids.append(uid)
        self._called("delete", kind, name if grace is None else f"{name} within {grace} s")

    async def list(self, kind: Kind, _namespace: str, labels: str = "") -> Any:
        self._called("list", kind, labels)
        return self.config_maps, "1"

    async def delete_all(self, kind: Kind, _namespace: str, labels: str) -> None:
        self._called("delete_all", kind, labels)


class Acting:
    def __init__(
        self,
        api: RecordingApi,
        may_act: Callable[[str], bool] = lambda _namespace: True,
        settings: JobSettings | None = None,
    ) -> None:
        self.counted: list[tuple[str, str]] = []
        self.wrote: list[tuple[str, str]] = []
        self.refusals: list[tuple[str, Refusal]] = []
        self.actor = Actor(
            api,  # type: ignore[arg-type]
            settings or JobSettings(),
            may_act=may_act,
            count=lambda action, result: self.counted.append((action, result)),
            identity="me",
            refused=lambda uid, refusal: self.refusals.append((uid, refusal)),
        )

    def act(self, *actions: Action, **changes: Any) -> None:
        def wrote(action: Action, body: dict[str, Any]) -> None:
            self.wrote.append((type(action).__name__, body["metadata"]["resourceVersion"]))

        asyncio.run(self.actor.act(resource(**changes), actions, wrote))
