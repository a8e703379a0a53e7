"""Makes the observation of one BucketIngest: from the mirrors, or live from the API server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from bucketingest_operator.decide.claims import that_decide
from bucketingest_operator.kube.api import Api, ApiError, NotFound
from bucketingest_operator.kube.kinds import NODES, PODS
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.manifests.attempt_objects import CHECK_DIGESTS, UID_LABEL
from bucketingest_operator.manifests.merging_jobs import COMPACTION_ROLE
from bucketingest_operator.observation import (
    ENDED,
    AttemptInput,
    Claim,
    Contact,
    Driver,
    Executors,
    Observation,
    PodReason,
    PodState,
)
from bucketingest_operator.observe.executor_probe import ExecutorProbe, waits_for_volumes
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.job_reading import (
    AnyJob,
    CheckSeen,
    CompactionJobSeen,
    ConfigSeen,
    JobSeen,
    check_jobs,
    compaction_jobs,
    rollback_jobs,
)
from bucketingest_operator.observe.last_good_reading import LastGoodReader
from bucketingest_operator.observe.ownership import controlled_by, made_for
from bucketingest_operator.observe.pod_reading import EndedDrivers, PodSeen
from bucketingest_operator.observe.progress_client import ProgressClient, Talk, talk_with
from bucketingest_operator.observe.readers import Readers
from bucketingest_operator.resource import Resource

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Copies:
    """The mirrors of one namespace, or of the cluster."""

    pods: Mirror[PodSeen]
    jobs: Mirror[AnyJob]
    configs: Mirror[ConfigSeen]

    def mirrors(self) -> tuple[Mirror[PodSeen] | Mirror[AnyJob] | Mirror[ConfigSeen], ...]:
        """The three mirrors."""
        return self.pods, self.jobs, self.configs


@dataclass(frozen=True, slots=True)
class Look:
    """The objects of one resource."""

    pods: Sequence[PodSeen]
    jobs: Sequence[AnyJob]
    configs: Sequence[ConfigSeen]
    live: bool


class Observer:
    """Makes observations. `copies`: the mirrors by namespace; under None those of the whole cluster. `readers`: for
    what live looks find.
    """

    def __init__(
        self,
        api: Api,
        progress: ProgressClient,
        inventory: Inventory,
        copies: dict[str | None, Copies],
        probe: ExecutorProbe,
        *,
        readers: Readers,
    ) -> None:
        self._readers = readers
        self._probe = probe
        self._api = api
        self._progress = progress
        self._inventory = inventory
        self._copies = copies
        self._nodes_forbidden = False
        self._last_good = LastGoodReader(api)
        self.ended = EndedDrivers()

    def forget(self, uid: str) -> None:
        """Forget a resource that no longer exists."""
        self._last_good.forget(uid)
        self.ended.forget(uid)

    async def look(self, resource: Resource, *, live: bool) -> Look:
        """The objects of a resource. `live`: its pods as the API server has them now, since only one driver may run.
        Jobs and ConfigMaps need no more than copies: names make each creation of one happen once.
        """
        if not live:
            return own(resource, self._look_at_copies(resource))
        pages = self._api.pages(PODS, resource.namespace, f"{UID_LABEL}={resource.uid}")
        pods = [kept async for page, _ in pages for each in page if (kept := self._readers.pod(each)) is not None]
        return own(resource, replace(self._look_at_copies(resource), pods=pods, live=True))

    def must_ask(self, resource: Resource, talk: Talk | None) -> bool:
        """Whether a driver runs that was never asked: a decision without its answer would be one from nothing."""
        pod = newest_driver(resource, own(resource, self._look_at_copies(resource)))
        talk = talk_with(pod, talk)
        return pod is not None and talk is not None and pod.state is PodState.RUNNING and talk.asked_at is None

    async def ask(self, resource: Resource, talk: Talk | None) -> Talk | None:
        """Ask the driver for its progress: the new state of the talk with it."""
        pod = newest_driver(resource, own(resource, self._look_at_copies(resource)))
        return await self._progress.ask(pod, resource.name, talk)

    def _look_at_copies(self, resource: Resource) -> Look:
        copies = self._copies.get(resource.namespace) or self._copies[None]
        uid = resource.uid
        return Look(copies.pods.of(uid), copies.jobs.of(uid), copies.configs.of(uid), live=False)

    async def observe(
        self, resource: Resource, talk: Talk | None, *, live: bool, namespace_terminating: bool
    ) -> tuple[Observation, Talk | None]:
        """The observation of a resource, and the new state of the talk with its driver."""
        look = await self.look(resource, live=live)
        attempt = newest_attempt(resource, look.pods)
        pod = newest_driver(resource, look)
        talk = talk_with(pod, talk)
        now = datetime.now(UTC)
        known = talk if talk is not None and pod is not None and talk.pod == pod.uid else None
        contact = Contact() if known is None else known.contact(now)
        gone = await self._nodes_gone(look.pods)
        found = executors(look.pods, attempt)
        current = [each for each in look.pods if each.attempt == attempt]
        found = replace(
            found,
            refused=await self._probe.why_none(resource, pod, known, found, now),
            secret_gone=await self._probe.secret_gone(resource, current, known, now),
        )
        observation = Observation(
            now=now,
            resource=resource,
            drivers=tuple(
                driver(each, now, node_gone=each.node in gone or is_unreachable(resource, each, now))
                for each in sorted(look.pods, key=lambda one: (one.attempt, one.name))
                if each.role == "driver"
            ),
            inputs=attempt_inputs(look),
            jobs=rollback_jobs(sorted(_of(JobSeen, look.jobs), key=lambda one: one.attempt), look.pods),
            preflights=check_jobs("preflight", _of(CheckSeen, look.jobs), look.pods, now),
            audits=check_jobs("audit", _of(CheckSeen, look.jobs), look.pods, now),
            compaction_jobs=compaction_jobs(_of(CompactionJobSeen, look.jobs), look.pods),
            executors=found,
            contact=contact,
            claims=that_decide([self._claim(each) for each in self._inventory.rivals(resource.uid)]),
            live=look.live,
            namespace_terminating=namespace_terminating,
            last_good=await self._last_good.read(resource),
            ended_drivers=self.ended.of(resource.uid),
        )
        return observation, talk

    async def _nodes_gone(self, pods: Sequence[PodSeen]) -> set[str]:
        """Nodes that are no longer a part of the cluster, of pods that should have ended and have not."""
        doubtful = {
            pod.node
            for pod in pods
            if pod.role == "driver"
            and pod.node is not None
            and pod.state not in ENDED
            and (pod.terminating or pod.phase in {"Unknown", "Failed", "Succeeded"})
        }
        return {node for node in doubtful if await self._node_gone(node)}

    async def _node_gone(self, node: str) -> bool:
        if self._nodes_forbidden:
            return False
        try:
            await self._api.get(NODES, None, node)
        except NotFound:
            return True
        except ApiError as error:
            if error.code != 403:
                raise
            self._nodes_forbidden = True
            log.warning(
                "nodes cannot be read: the operator waits for drivers on lost nodes until Kubernetes removes them"
            )
        return False

    def _claim(self, rival: Resource) -> Claim:
        pods = made_for(rival, self._look_at_copies(rival).pods)
        alive = any(pod.role == "driver" and pod.state not in ENDED for pod in pods)
        return Claim(
            rival.namespace,
            rival.name,
            rival.uid,
            rival.created_at,
            started=rival.started,
            has_driver=alive,
            rests=rival.rests,
            committed=rival.committed,
            holds=rival.holds,
        )


def own(resource: Resource, look: Look) -> Look:
    """The look without objects that only carry the labels: a forged driver must not stop another tenant's."""
    drivers = made_for(resource, [pod for pod in look.pods if pod.role == "driver"])
    jobs = made_for(resource, _of(JobSeen, look.jobs))
    compactions = made_for(resource, _of(CompactionJobSeen, look.jobs))
    preflights = made_for(resource, _of(CheckSeen, look.jobs))
    executors = [pod for pod in look.pods if pod.role == "executor"]
    of_jobs = [pod for pod in look.pods if pod.role in {"rollback", COMPACTION_ROLE, *CHECK_DIGESTS}]
    uids = {*(one.uid for one in jobs), *(one.job.uid for one in compactions), *(one.job.uid for one in preflights)}
    pods = [
        *drivers,
        *controlled_by(resource, "Pod", {pod.uid for pod in drivers}, executors),
        *controlled_by(resource, "Job", uids, of_jobs),
    ]
    return Look(pods, [*jobs, *compactions, *preflights], made_for(resource, look.configs), look.live)


def newest_attempt(resource: Resource, pods: Sequence[PodSeen]) -> int:
    """Number of the newest attempt in the status or of a driver pod."""
    status = resource.status
    numbers = [status.attempt or 0, *(each.number for each in status.attempts or ())]
    return max(numbers + [pod.attempt for pod in pods if pod.role == "driver"])


def newest_driver(resource: Resource, look: Look) -> PodSeen | None:
    """The driver pod of the newest attempt."""
    attempt = newest_attempt(resource, look.pods)
    return next((each for each in look.pods if each.role == "driver" and each.attempt == attempt), None)


def driver(pod: PodSeen, now: datetime, *, node_gone: bool = False) -> Driver:
    """A driver pod for an observation."""
    reason, message = pod.reason, pod.message
    if reason is PodReason.NONE and waits_for_volumes(pod, now):
        reason = PodReason.CONFIG
        message = "Its node has not set up its volumes and network yet: see the events of the pod."
    return Driver(
        attempt=pod.attempt,
        name=pod.name,
        state=pod.state,
        created_at=pod.created_at,
        terminating=pod.terminating,
        node_gone=node_gone,
        reason=reason,
        message=message,
        exit_code=pod.exit_code,
        report=pod.report,
        finished_at=pod.finished_at,
        uid=pod.uid,
    )


def is_unreachable(resource: Resource, pod: PodSeen, now: datetime) -> bool:
    """Whether a pod's node has not reported its end for longer than the spec allows."""
    allowed = None if resource.wanted is None else resource.wanted.spec.restart.unreachable_after
    return allowed is not None and pod.should_end_at is not None and now - pod.should_end_at >= allowed


def executors(pods: Sequence[PodSeen], attempt: int) -> Executors:
    """The executors of an attempt, without those that are terminating or have ended."""
    current = [pod for pod in pods if pod.role == "executor" and pod.attempt == attempt and not pod.terminating]
    pending = sorted((pod for pod in current if pod.phase == "Pending"), key=lambda pod: pod.name)
    words = next((pod.message or pod.reason.value for pod in pending if pod.reason is not PodReason.NONE), "")
    return Executors(sum(pod.phase == "Running" for pod in current), len(pending), words)


def attempt_inputs(look: Look) -> dict[int, AttemptInput]:
    """What attempts were started with: from their ConfigMaps, or from their pods if those are gone."""
    by_pods = {pod.attempt: pod.attempt_input for pod in look.pods if pod.attempt_input is not None}
    by_configs = {config.attempt: config.attempt_input for config in look.configs if config.attempt_input is not None}
    return {**by_pods, **by_configs}


def _of(kind: type[T], found: Sequence[object]) -> list[T]:
    return [each for each in found if isinstance(each, kind)]
