"""Carries out a plan, up to a write of the resource that fails. An action that is repeated has no second effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

from bucketingest.spec.model import API_GROUP, API_VERSION, KIND
from bucketingest_operator.decide.permission import forbidden
from bucketingest_operator.decide.plan import (
    Action,
    AddFinalizer,
    CreateCheck,
    CreateCompaction,
    CreateRollback,
    CreateServices,
    DeleteAttempt,
    DeleteDriver,
    DeleteExecutors,
    DeleteJob,
    EmitEvent,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.kube.api import AlreadyExists, Api, ApiError, NotFound, Object
from bucketingest_operator.kube.attempt_start import start_attempt
from bucketingest_operator.kube.kinds import (
    BUCKET_INGESTS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    PODS,
    Kind,
)
from bucketingest_operator.kube.leaders_api import CreationRefused, LeadersApi, create_all, together
from bucketingest_operator.manifests.attempt_objects import ATTEMPT_LABEL, ROLE_LABEL, UID_LABEL, Manifests
from bucketingest_operator.manifests.merging_jobs import MergingJobs
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Refusal
from bucketingest_operator.resource import FINALIZER, Resource

log = logging.getLogger(__name__)

COMPONENT: Final = "bucketingest-operator"
_EVENT_MESSAGE_MAX: Final = 1024
_WRITES: Final = (WriteStatus, AddFinalizer, RemoveFinalizer)
"""They write the resource: what follows is done only if it is still as it was observed."""
STUCK_SECONDS: Final = 5
"""What a driver that makes no progress gets to end: it cannot commit."""


class Actor:
    """Carries out plans. `may_act` is called with the namespace before each call, `count` with each action's name and
    its result (`done`, `failed`), `refused` with the UID of a resource whose compaction's or preflight's Job the API
    server refuses. `identity`: this process, for events.
    """

    def __init__(
        self,
        api: Api,
        settings: JobSettings,
        *,
        may_act: Callable[[str], bool],
        count: Callable[[str, str], None],
        identity: str,
        refused: Callable[[str, Refusal], None] = lambda _uid, _refusal: None,
    ) -> None:
        self._api = LeadersApi(api, may_act)
        self._settings = settings
        self._count = count
        self._identity = identity
        self._refused = refused
        self.upgrade_kept = True
        """Whether the API server keeps `status.upgrade`: one whose definition is older drops it."""

    async def act(self, resource: Resource, actions: Sequence[Action], wrote: Callable[[Action, Object], None]) -> None:
        """Carry out actions: writes of the resource one by one, and what is between two of them at the same time, since
        none of it needs another. `wrote` is called with each that wrote to the resource, and with the resource as it is
        now. Raises NotLeader; Conflict: the resource has changed since it was observed, look again; CreationRefused: a
        rule of the cluster refuses an object; ApiError: what follows the next write was not tried.
        """
        version = resource.version
        for are_writes, some in groupby(actions, lambda each: isinstance(each, _WRITES)):
            if not are_writes:
                await together(*(self._do_and_count(resource, each, version) for each in some))
                continue
            for action in some:
                written = await self._do_and_count(resource, action, version)
                if written is not None:
                    version = written["metadata"]["resourceVersion"]
                    wrote(action, written)

    async def _do_and_count(self, resource: Resource, action: Action, version: str) -> Object | None:
        try:
            written = await self._do(resource, action, version)
        except ApiError:
            self._count(type(action).__name__, "failed")
            raise
        self._count(type(action).__name__, "done")
        return written

    async def _do(self, resource: Resource, action: Action, version: str) -> Object | None:
        """Carry out one action. Returns the resource if the action wrote it."""
        match action:
            case WriteStatus():
                return await self._write_status(resource, action)
            case AddFinalizer():
                return await self._finalizers(resource, version, [*resource.finalizers, FINALIZER])
            case RemoveFinalizer():
                return await self._remove_finalizer(resource, version)
            case StartAttempt(number, attempt_input, wanted, ended):

                def made_with(part: str) -> Manifests:
                    return _allowed(Manifests(wanted, resource.namespace, resource.uid, self._settings, part))

                await start_attempt(self._api, made_with, number, attempt_input, ended)
            case CreateRollback(number, wanted):
                made = _allowed(Manifests(wanted, resource.namespace, resource.uid, self._settings))
                await create_all(self._api, [*made.identity(), made.rollback_job(number)])
            case CreateCompaction() | CreateServices() | CreateCheck():
                await self._create_job(resource, action)
            case EmitEvent():
                await self._emit_event(resource, action)
            case _:
                await self._remove(resource, action)
        return None

    async def _create_job(self, resource: Resource, action: CreateCompaction | CreateServices | CreateCheck) -> None:
        """A Job that a quota or an admission controller refuses must not hold up what the ingestion needs."""
        made = MergingJobs(action.wanted, resource.namespace, resource.uid, self._settings)
        match action:
            case CreateCompaction(work, digest):
                job = made.compaction_job(work, digest)
            case CreateServices():
                job = made.services_job()
            case CreateCheck(role, number, digest):
                job = made.preflight_job(number, digest) if role == "preflight" else made.audit_job(number, digest)
        try:
            await create_all(self._api, [*_allowed(made).identity(), job])
        except NotFound:
            raise
        except ApiError as error:
            if not 400 <= error.code < 500 or error.namespace_terminating:
                raise
            name, role = job["metadata"]["name"], job["metadata"]["labels"][ROLE_LABEL]
            log.warning("a Job was refused", extra={"job": name, "error": str(error)})
            why = forbidden(made)
            said = (why or str(error))[:_EVENT_MESSAGE_MAX]
            refusal = Refusal(name, said, datetime.now(UTC), role, about_driver=why is not None)
            self._refused(resource.uid, refusal)

    async def _remove(
        self, resource: Resource, action: DeleteDriver | DeleteExecutors | DeleteAttempt | DeleteJob
    ) -> None:
        names, where = Names(resource.name, resource.uid), resource.namespace
        match action:
            case DeleteDriver(_, name, force, stuck, uid):
                await self._delete(PODS, where, name, uid, grace=0 if force else STUCK_SECONDS if stuck else None)
            case DeleteExecutors(number):
                await self._api.delete_all(PODS, where, _selector(resource, number, "executor"))
            case DeleteJob(name, uid):
                await self._delete(JOBS, where, name, uid)
            case DeleteAttempt(number, has_driver, has_job):
                # The ConfigMap last: while it exists, the next pass sees that the attempt still has to be cleaned up.
                if has_driver:
                    await self._delete(PODS, where, names.driver(number))
                if has_job:
                    await self._delete(JOBS, where, names.rollback(number))
                await self._delete(CONFIG_MAPS, where, names.attempt(number))

    async def _write_status(self, resource: Resource, action: WriteStatus) -> Object:
        content: Object = {
            "apiVersion": f"{API_GROUP}/{API_VERSION}",
            "kind": KIND,
            "metadata": {
                "name": resource.name,
                "namespace": resource.namespace,
                "uid": resource.uid,
                "resourceVersion": action.if_version,
            },
            "status": action.status.to_document(),
        }
        written = await self._api.replace(BUCKET_INGESTS, resource.namespace, resource.name, content, "status")
        if self.upgrade_kept and action.status.upgrade is not None and "upgrade" not in (written.get("status") or {}):
            self.upgrade_kept = False
            advice = "apply crds/bucketingests.yaml of this version and restart the operator"
            log.warning(
                "the definition of BucketIngest is older than the operator: changed specs are neither checked nor on "
                "probation",
                extra={"advice": advice},
            )
        return written

    async def _finalizers(self, resource: Resource, version: str, finalizers: list[str]) -> Object:
        metadata: dict[str, Any] = {"resourceVersion": version, "uid": resource.uid, "finalizers": finalizers}
        return await self._api.patch(BUCKET_INGESTS, resource.namespace, resource.name, {"metadata": metadata})

    async def _remove_finalizer(self, resource: Resource, version: str) -> Object | None:
        try:
            return await self._finalizers(
                resource, version, [each for each in resource.finalizers if each != FINALIZER]
            )
        except NotFound:
            return None

    async def _delete(self, kind: Kind, namespace: str, name: str, uid: str = "", *, grace: int | None = None) -> None:
        with suppress(NotFound):
            await self._api.delete(kind, namespace, name, uid=uid, grace=grace)

    async def _emit_event(self, resource: Resource, event: EmitEvent) -> None:
        names = Names(resource.name, resource.uid)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        content: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": names.event(event.kind, event.reason, event.message, event.about),
                "namespace": resource.namespace,
            },
            "involvedObject": {
                "apiVersion": f"{API_GROUP}/{API_VERSION}",
                "kind": KIND,
                "name": resource.name,
                "namespace": resource.namespace,
                "uid": resource.uid,
                "resourceVersion": resource.version,
            },
            "type": event.kind,
            "reason": event.reason,
            "message": event.message[:_EVENT_MESSAGE_MAX],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._identity,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._api.create(EVENTS, resource.namespace, content)
        except AlreadyExists:
            pass
        except ApiError as error:
            # The status says it too, and a namespace that is being deleted accepts no events.
            if error.code != 403:
                raise
            if not error.namespace_terminating:
                log.warning("an event was refused", extra={"namespace": resource.namespace, "error": str(error)})


def _allowed(made: Manifests) -> Manifests:
    """Raises CreationRefused if an administrator's settings forbid what the resource asks for."""
    why = forbidden(made)
    if why is not None:
        raise CreationRefused("the operator's settings forbid it", code=HTTPStatus.FORBIDDEN, sentence=why)
    return made


def _selector(resource: Resource, number: int, role: str) -> str:
    return f"{UID_LABEL}={resource.uid},{ATTEMPT_LABEL}={number},{ROLE_LABEL}={role}"
