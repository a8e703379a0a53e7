"""Collects what explains one pipeline, part by part: a part that cannot be read is noted, and the rest is collected.

Everything is read with the user's rights, nothing from storage, and no Secret.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bucketingest.exit_codes import ExitCode
from bucketingest.redaction import Redactor, without_secrets
from bucketingest.spec.fields.tables import PLACEHOLDER, TOPIC
from bucketingest.spec.reading.json_text import parse_json
from bucketingest_operator.cli.bundle import DECISIONS, BundleWriter
from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.errors import ClusterError, ContainerUnreachable, NotThere
from bucketingest_operator.cli.stripping import strip_line, strip_text, stripped
from bucketingest_operator.decision_log import EVENT
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, CONFIG_MAPS, EVENTS, JOBS, PODS, Kind
from bucketingest_operator.manifests.attempt_objects import ROLE_LABEL, UID_LABEL
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.pod_specs import DRIVER_CONTAINER, HTTP_PORT
from bucketingest_operator.observe.pod_reading import attempt_of

Object = dict[str, Any]

OPERATOR_LABELS: Final = "app.kubernetes.io/name=bucketingest-operator"
"""Labels of the operator's pods, as its chart sets them."""
_LOG_LINES: Final = 5000
_LOG_BYTES: Final = 16 * 1024 * 1024
_OPERATOR_LOG_BYTES: Final = 256 * 1024 * 1024
_PODS_MAX: Final = 40
_TABLES_MAX: Final = 3
_INSPECT_SECONDS: Final = 90.0
_INSPECT_BYTES: Final = 8 * 1024 * 1024
_PROGRESS_BYTES: Final = 64 * 1024

_redact: Final = Redactor()


def _tables(resource: Object) -> dict[str, str]:
    """Paths of the tables that are inspected, by the name of their part. Of many tables the first in need."""
    path, status = str(resource["spec"]["table"]["path"]), resource.get("status") or {}
    if PLACEHOLDER not in path:
        return {"timeline": path}
    worst = (str(each.get("topic")) for each in (status.get("tables") or {}).get("worst") or ())
    topics = [topic for topic in worst if TOPIC.fullmatch(topic)][:_TABLES_MAX]
    return {f"timeline-{topic}": path.replace(PLACEHOLDER, topic) for topic in topics}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pipeline, and how far back in time."""

    namespace: str
    name: str
    since_seconds: int
    operator_namespace: str | None = None
    """None: all namespaces, as far as the user may read them."""
    timeline: bool = True
    """Whether to inspect the table too, which needs some memory of the driver's pod for a moment."""


class Collector:
    """Collects one pipeline's bundle. `report` is called with each step, to show the progress to the user."""

    def __init__(self, cluster: Cluster, wanted: Wanted, bundle: BundleWriter, report: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._bundle = bundle
        self._report = report

    def collect(self) -> None:
        """Fill the bundle. Raises ClusterError if the resource cannot be read."""
        wanted, bundle = self._wanted, self._bundle
        self._report("resource")
        try:
            resource = self._cluster.get(BUCKET_INGESTS.path(wanted.namespace, wanted.name))
        except NotThere as error:
            raise NotThere(
                f"there is no BucketIngest {wanted.name} in namespace {wanted.namespace}: see kubectl get bi -A"
            ) from error
        bundle.add_yaml("resource.yaml", stripped(resource))
        with self._noting("version.json"):
            bundle.add_json("version.json", self._cluster.get("/version"))
        uid = str(resource["metadata"]["uid"])
        pods = self._owned(uid)
        with self._noting("events.txt"):
            self._report("events")
            self._events(Names(wanted.name, uid).base, uid)
        for pod in pods:
            self._log(pod)
        driver = newest_running_driver(pods)
        if driver is None:
            bundle.missing["progress.json, timeline.txt"] = "no driver pod is running"
        else:
            self._ask(driver, _tables(resource))
        with self._noting(DECISIONS):
            self._report("the operator's decisions")
            self._decisions()

    def _ask(self, driver: Object, tables: dict[str, str]) -> None:
        """What only the driver's container says. If no command can be run in it, that is noted once."""
        table_parts = "timeline.txt, timeline.json"
        asked = f"progress.json, {table_parts}"
        try:
            self._progress(driver)
            asked = table_parts
            if self._wanted.timeline:
                for name, table in tables.items():
                    self._timeline(driver, name, table)
        except ContainerUnreachable as error:
            self._bundle.missing[asked] = _redact(str(error))

    @contextmanager
    def _noting(self, part: str) -> Iterator[None]:
        try:
            yield
        except ContainerUnreachable:
            raise
        except (ClusterError, ValueError) as error:  # ValueError: an answer is not JSON
            self._bundle.missing[part] = _redact(str(error))

    def _owned(self, uid: str) -> list[Object]:
        """Write the objects that the operator and Spark created for the resource; returns its pods, oldest first."""
        pods: list[Object] = []
        for kind in (PODS, JOBS, CONFIG_MAPS):
            self._report(kind.plural)
            with self._noting(f"{kind.plural}/"):
                found = self._labelled(kind, uid)
                for each in found:
                    self._bundle.add_yaml(f"{kind.plural}/{_name(each)}.yaml", stripped(each))
                if kind is PODS:
                    pods = sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        return pods[-_PODS_MAX:]

    def _labelled(self, kind: Kind, uid: str) -> list[Object]:
        singular = {"pods": "Pod", "jobs": "Job", "configmaps": "ConfigMap"}[kind.plural]
        found = self._cluster.items(kind.path(self._wanted.namespace), labelSelector=f"{UID_LABEL}={uid}")
        return [{"kind": singular, **each} for each in found]  # lists leave the kind out

    def _events(self, base: str, uid: str) -> None:
        about = [
            event
            for event in self._cluster.items(EVENTS.path(self._wanted.namespace))
            if _is_about(event.get("involvedObject") or {}, base, uid)
        ]
        about.sort(key=_event_time)
        self._bundle.add("events.txt", "".join(f"{_event_line(event)}\n" for event in about))

    def _log(self, pod: Object) -> None:
        for container in pod["spec"]["containers"]:
            part = f"logs/{_name(pod)}.{container['name']}.log"
            self._report(part)
            with self._noting(part):
                path = PODS.path(self._wanted.namespace, _name(pod), "log")
                asked = {"container": container["name"], "tailLines": str(_LOG_LINES), "timestamps": "true"}
                lines = deque(self._cluster.lines(path, _LOG_BYTES, **asked), maxlen=_LOG_LINES)
                self._bundle.add(part, "".join(f"{_strip_timed(line)}\n" for line in lines))

    def _progress(self, pod: Object) -> None:
        self._report("/progress")
        with self._noting("progress.json"):
            try:
                path = f"{PODS.path(self._wanted.namespace)}/{_name(pod)}:{HTTP_PORT}/proxy/progress"
                report = self._cluster.get(path)
            except ClusterError:  # the user may lack the right to the proxy, or the API server may not reach pods
                report = parse_json(self._run(pod, _ASK_PROGRESS, _PROGRESS_BYTES))
            self._bundle.add_json("progress.json", without_secrets(report, _redact))

    def _timeline(self, pod: Object, name: str, table: str) -> None:
        """The table as `bucketingest inspect` shows it, run in the driver's container, which has the credentials."""
        self._report("timeline of the table")
        with self._noting(f"{name}.txt"):
            self._bundle.add(f"{name}.txt", strip_text(self._run(pod, ["inspect", table], _INSPECT_BYTES)))
        with self._noting(f"{name}.json"):
            report = parse_json(self._run(pod, ["inspect", table, "--json"], _INSPECT_BYTES))
            self._bundle.add_json(f"{name}.json", without_secrets(report, _redact))

    def _run(self, pod: Object, arguments: list[str], bytes_max: int) -> str:
        # Only the job may write the container's termination message.
        command = ["env", "BUCKETINGEST_TERMINATION_LOG=/dev/null"]
        command += ["bucketingest", *arguments] if arguments[0] == "inspect" else arguments
        namespace, name = self._wanted.namespace, _name(pod)
        return self._cluster.run(
            namespace,
            name,
            DRIVER_CONTAINER,
            command,
            seconds=_INSPECT_SECONDS,
            bytes_max=bytes_max,
            good=(ExitCode.OK, ExitCode.FINDINGS),
        )

    def _decisions(self) -> None:
        wanted = self._wanted
        found = OperatorLog(wanted.namespace, wanted.name)
        pods = self._cluster.items(PODS.path(wanted.operator_namespace), labelSelector=OPERATOR_LABELS)
        if not pods:
            raise NotThere(f"no pod has the labels {OPERATOR_LABELS}: is the operator installed?")
        for pod in pods:
            path = PODS.path(pod["metadata"]["namespace"], _name(pod), "log")
            restarted = any(each.get("restartCount") for each in pod.get("status", {}).get("containerStatuses") or ())
            for previous in [True, False] if restarted else [False]:
                asked = {"sinceSeconds": str(wanted.since_seconds), **({"previous": "true"} if previous else {})}
                with self._noting(f"log of {_name(pod)}{' before its restart' if previous else ''}"):
                    found.take(self._cluster.lines(path, _OPERATOR_LOG_BYTES, **asked))
        self._bundle.add(DECISIONS, "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in found.ordered()))
        self._bundle.add("logs/operator.log", "".join(f"{line}\n" for line in found.others))


_ASK_PROGRESS: Final = [
    "python3",
    "-c",
    f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{HTTP_PORT}/progress', timeout=5).read().decode())",
]


def newest_running_driver(pods: list[Object]) -> Object | None:
    """The driver pod of the newest attempt, if it runs. Pure."""
    drivers = [pod for pod in pods if pod["metadata"].get("labels", {}).get(ROLE_LABEL) == "driver"]
    newest = max(drivers, key=lambda pod: attempt_of(pod["metadata"]["labels"]) or 0, default=None)
    if newest is None or newest.get("status", {}).get("phase") != "Running":
        return None
    return newest


def _strip_timed(line: str) -> str:
    """A log line without secrets. It starts with the node's timestamp."""
    at, blank, rest = line.partition(" ")
    return f"{at}{blank}{strip_line(rest)}"


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _is_about(involved: Object, base: str, uid: str) -> bool:
    return involved.get("uid") == uid or str(involved.get("name", "")).startswith(f"{base}-")


def _event_time(event: Object) -> str:
    times = (event.get(name) for name in ("lastTimestamp", "eventTime", "firstTimestamp"))
    return str(next((at for at in times if at), ""))


def _event_line(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    times = event.get("count") or 1
    text = _redact(" ".join(str(event.get("message", "")).split()))
    what = f"{involved.get('kind')}/{involved.get('name')}"
    return f"{_event_time(event)} {event.get('type')} {event.get('reason')} {what} (x{times}): {text}"


_KEPT_LINES: Final = 5000
_FIELDS: Final = ("timestamp", "namespace", "name", "observation", "plan")


@dataclass(slots=True)
class OperatorLog:
    """The newest log lines of operators about one resource."""

    namespace: str
    name: str
    decisions: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """Records of the decision log, with only the fields that a replay needs."""
    others: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """Other lines that name the resource."""

    def take(self, lines: Iterable[str]) -> None:
        """Add the lines of one pod."""
        for line in lines:
            if self.name not in line:
                continue
            record = _record(line)
            if record is None:
                self.others.append(strip_line(line))
            elif (record.get("namespace", self.namespace), record.get("name", self.name)) != (
                self.namespace,
                self.name,
            ):
                continue
            elif record.get("event") == EVENT:
                self.decisions.append({key: record[key] for key in _FIELDS if key in record})
            else:
                self.others.append(strip_line(line))

    def ordered(self) -> list[dict[str, Any]]:
        """The decisions of all pods, oldest first."""
        return sorted(self.decisions, key=lambda record: str(record.get("timestamp", "")))


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
