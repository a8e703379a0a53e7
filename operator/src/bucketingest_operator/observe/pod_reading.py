"""Reads a pod's JSON: its state, why it does not start, how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from bucketingest.redaction import Redactor
from bucketingest.spec.job_report import TerminationReport
from bucketingest.spec.model import KIND
from bucketingest.spec.reading.json_text import parse_json
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.manifests.attempt_input import parse_attempt_input
from bucketingest_operator.manifests.attempt_objects import ATTEMPT_LABEL, ROLE_LABEL
from bucketingest_operator.manifests.merging_jobs import COMPACTION_ROLE
from bucketingest_operator.manifests.pod_specs import COMPACTION_CONTAINER
from bucketingest_operator.manifests.spark_ports import secret_mounted
from bucketingest_operator.observation import ENDED, AttemptInput, PodReason, PodState
from bucketingest_operator.observe.ownership import Controller, Owned, controller_of

Object = dict[str, Any]

_redact: Final = Redactor()
_KILLED: Final = 137
"""Exit code after SIGKILL: the last log line is not the reason."""
_ENDED_KEPT: Final = 4
"""Names of drivers that are kept for a resource: of its newest attempts."""
SHOWN: Final = 400
"""How many characters of a message of Kubernetes are kept."""
_DIGITS_MAX: Final = 18
_READ: Final = 4096
"""How many of them are looked at: Kubernetes keeps so much of a termination message."""

_IMAGE: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "StartError",
    }
)
_EVICTED: Final = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Preempted", "Shutdown", "Terminated"}
)
# The node refused the pod after the scheduler had chosen it.
_REFUSED: Final = ("NodeAffinity", "NodePorts", "OutOf", "PodOSNotSupported", "Topology", "UnexpectedAdmissionError")


@dataclass(frozen=True, slots=True)
class PodSeen(Owned):
    """One pod of a BucketIngest.

    Attributes:
        role: `driver`, `executor`, `rollback`, `preflight`, `audit` or `compaction`.
        attempt: 0 of a compaction's, which belongs to none.
        phase: The phase in Kubernetes; not reliable, unlike `state`.
        terminating: It has a deletion timestamp.
        should_end_at: Then its time to end is over; None if it need not end.
        mounting_since: Since when it is on a node that has not set up its volumes and network.
        rpc_secret: Name of the Secret of Spark's ports that it mounts; "" if it mounts none.
    """

    uid: str
    name: str
    role: str
    attempt: int
    created_at: datetime
    phase: str
    state: PodState
    reason: PodReason = PodReason.NONE
    message: str = ""
    terminating: bool = False
    node: str | None = None
    ip: str | None = None
    attempt_input: AttemptInput | None = None
    exit_code: int | None = None
    report: TerminationReport | None = None
    finished_at: datetime | None = None
    mounting_since: datetime | None = None
    rpc_secret: str = ""
    should_end_at: datetime | None = None

    @property
    def is_between(self) -> bool:
        """Whether it starts, or is being deleted: nothing is to do before it runs or has ended."""
        return self.state is PodState.PENDING or (self.terminating and self.state is PodState.RUNNING)


class EndedDrivers:
    """Driver pods that are gone now, and whose node had reported the end of their processes before."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}

    def note(self, owner: str, pod: PodSeen) -> None:
        """A pod of the resource with this UID is gone; `pod`: as it was last."""
        ended = pod.state in ENDED and pod.finished_at is not None
        if pod.role == "driver" and ended and pod.controller == Controller(KIND, owner):
            self._names[owner] = (*self.of(owner), pod.name)[-_ENDED_KEPT:]

    def of(self, owner: str) -> tuple[str, ...]:
        """Their names, the newest last."""
        return self._names.get(owner, ())

    def forget(self, owner: str) -> None:
        """The resource no longer exists."""
        self._names.pop(owner, None)


def read_pod(pod: Object) -> PodSeen | None:
    """The pod; None if its labels are not the operator's."""
    metadata, status, spec = pod["metadata"], pod.get("status") or {}, pod.get("spec") or {}
    labels = metadata.get("labels") or {}
    role = labels.get(ROLE_LABEL)
    attempt = 0 if role == COMPACTION_ROLE else attempt_of(labels)
    if attempt is None or role not in {"driver", "executor", "rollback", "preflight", "audit", COMPACTION_ROLE}:
        return None
    state = pod_state(status, spec)
    ended = _ended(status)
    report = read_report(ended.get("message")) if ended is not None else None
    reason, message = pod_reason(status, state)
    if not message and ended is not None and report is None:
        message = f"The {role} was killed (SIGKILL)." if ended.get("exitCode") == _KILLED else _log_end(ended)
    return PodSeen(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        role=role,
        attempt=attempt,
        created_at=read_time(metadata["creationTimestamp"]),
        phase=status.get("phase") or "Pending",
        state=state,
        reason=reason,
        message=message,
        terminating="deletionTimestamp" in metadata,
        node=spec.get("nodeName") or None,
        ip=status.get("podIP") or None,
        attempt_input=parse_attempt_input(metadata.get("annotations") or {}) if role == "driver" else None,
        exit_code=ended.get("exitCode") if ended is not None else None,
        report=report,
        finished_at=_finished(status),
        mounting_since=_mounting_since(status, state),
        rpc_secret=secret_mounted(spec),
        controller=controller_of(metadata),
        should_end_at=read_time(metadata["deletionTimestamp"]) if "deletionTimestamp" in metadata else None,
    )


def attempt_of(labels: dict[str, str]) -> int | None:
    """The attempt that an object belongs to; None if the label is missing or not a number."""
    return whole_number(labels.get(ATTEMPT_LABEL, ""))


def whole_number(text: str) -> int | None:
    """A number from 0 in decimal digits; None for another text, and for more digits than any count here has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None


def pod_state(status: Object, spec: Object) -> PodState:
    """The state of a pod: that of the job's container, since a mesh may add others, which may go on.

    It has ended when that container has, whatever the phase says before; without its end, when none runs or can run.
    """
    phase = status.get("phase") or "Pending"
    own = _ended(status)
    if phase == "Running" and spec.get("restartPolicy") == "Never" and own is not None:
        # The node reports the ends of containers a second before the phase, and this one does not start again.
        return PodState.FAILED if own.get("exitCode") else PodState.SUCCEEDED
    ended = phase in {"Succeeded", "Failed"}
    if ended and (own is not None or not any(_runs(each) for each in _containers(status))):
        return PodState.SUCCEEDED if phase == "Succeeded" else PodState.FAILED
    # The node does not respond, or it sets the phase before its containers have ended.
    if ended or phase in {"Running", "Unknown"}:
        return PodState.RUNNING
    return PodState.PENDING


def pod_reason(status: Object, state: PodState) -> tuple[PodReason, str]:
    """Why a pod does not start, or how it ended, and the message."""
    message = short(status.get("message") or "")
    word = status.get("reason") or ""
    if word in _EVICTED:
        return PodReason.EVICTED, message or word
    if word == "DeadlineExceeded":
        return PodReason.DEADLINE, message or word
    if state is PodState.FAILED and word.startswith(_REFUSED):
        return PodReason.UNSCHEDULABLE, message or word
    for each in _containers(status):
        ended = (each.get("state") or {}).get("terminated") or {}
        if ended.get("reason") == "OOMKilled":
            return PodReason.OOM_KILLED, f"Container {each.get('name')} was killed: out of memory."
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    disrupted = conditions.get("DisruptionTarget") or {}
    if disrupted.get("status") == "True" and state in {PodState.SUCCEEDED, PodState.FAILED}:
        return PodReason.EVICTED, short(disrupted.get("message") or disrupted.get("reason") or "")
    return (PodReason.NONE, message) if state is not PodState.PENDING else _why_pending(status, conditions, message)


def _why_pending(status: Object, conditions: dict[str, Object], message: str) -> tuple[PodReason, str]:
    for each in _containers(status):
        waiting = (each.get("state") or {}).get("waiting") or {}
        word, words = waiting.get("reason") or "", short(waiting.get("message") or "")
        if word in _IMAGE:
            return PodReason.IMAGE_PULL, f"{word}: {words}".rstrip(": ")
        if word in _CONFIG:
            return PodReason.CONFIG, f"{word}: {words}".rstrip(": ")
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return PodReason.UNSCHEDULABLE, short(scheduled.get("message") or scheduled.get("reason") or "")
    return PodReason.NONE, message


def _mounting_since(status: Object, state: PodState) -> datetime | None:
    """Since when a node has the pod and has not set up its network and volumes; None if it has, or may have."""
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready = conditions.get("PodReadyToStartContainers") or {}
    scheduled = conditions.get("PodScheduled") or {}
    if state is not PodState.PENDING or ready.get("status") != "False" or scheduled.get("status") != "True":
        return None
    at = scheduled.get("lastTransitionTime")
    return read_time(at) if at else None


def read_report(message: str | None) -> TerminationReport | None:
    """A termination message; None if it is not the job's own: Kubernetes puts the end of the log there."""
    if not message or not message.lstrip().startswith("{"):
        return None
    try:
        return TerminationReport.model_validate_json(message)
    except ValidationError:
        return None


def read_time(text: str) -> datetime:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _runs(container: Object) -> bool:
    state = container.get("state") or {}
    return "running" in state or (bool(container.get("started")) and "terminated" not in state)


def _ended(status: Object) -> Object | None:
    """How the job's container ended: a mesh may add others."""
    names = {"driver", "rollback", "preflight", "audit", COMPACTION_CONTAINER, "spark-kubernetes-executor"}
    for each in status.get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if each.get("name") in names and ended:
            return dict(ended)
    return None


def _finished(status: Object) -> datetime | None:
    ends = [
        read_time(ended["finishedAt"])
        for each in status.get("containerStatuses") or ()
        if (ended := (each.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    # For a lost node the time is unknown, and is the start of the epoch.
    return max((end for end in ends if end.year > 2000), default=None)


def _log_end(ended: Object) -> str:
    """The last log line of a container without a termination message: Kubernetes puts the end of the log there."""
    lines = [line.strip() for line in (ended.get("message") or "").splitlines() if line.strip()]
    if not lines:
        return ""
    try:
        record = parse_json(lines[-1])
    except ValueError:
        return short(lines[-1])
    said = [str(record[name]) for name in ("event", "error") if name in record] if isinstance(record, dict) else []
    return short(": ".join(said))


def short(text: str) -> str:
    """A message of Kubernetes, or of a container, as one line without secrets that a terminal does not obey."""
    one = _redact(" ".join(plain(text[:_READ]).split()))
    return one if len(one) <= SHOWN else f"{one[: SHOWN - 1]}…"
