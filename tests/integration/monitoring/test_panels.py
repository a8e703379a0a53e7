"""A real Prometheus scrapes a real job, and the operator's metrics of it: no panel is empty, and no alert fires."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.status import Attempt, Condition, LastCommit, Status
from bucketingest.stream.report.endpoints import Answer, Endpoints
from bucketingest.stream.report.metrics import CONTENT_TYPE
from bucketingest_operator.metrics.operator_metrics import Metrics
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.passes import Memory
from devservers.kafka import KafkaBroker
from devservers.process import free_ports
from devservers.produce import produce
from devservers.prometheus import Prometheus
from support.jobs.command_process import CommandProcess
from support.monitoring.panel_queries import without_data
from support.monitoring.promtool import rules_file

NAMESPACE, NAME = "shop", "orders"
DATA_WITHIN_SECONDS = 90.0


def send(broker: KafkaBroker, topic: str) -> None:
    """Some hundred messages, one of which does not decode."""
    rows = [{"id": number % 50, "text": "x", "gone": number % 7 == 0} for number in range(500)]
    messages = [(str(row["id"]).encode(), json.dumps(row).encode()) for row in rows]
    produce(broker.bootstrap_servers, topic, [*messages, (b"1", b"no json")])


class OfOperator:
    """The metrics that the operator would export for one resource, from the real job's `/progress`."""

    def __init__(self, document: dict[str, object], job: str) -> None:
        self.metrics = Metrics()
        self._job = job
        self.memory = Memory()
        self.inventory = Inventory(lambda _uid: None, lambda _uid: None)
        self.metrics.watch(
            leads=lambda: True,
            resources=lambda: len(self.inventory),
            overdue=lambda: 0.0,
            calls=lambda: 0,
            unreadable=lambda: 0,
            taken=lambda: 0,
        )
        self._resources = ResourceMetrics(self.inventory, lambda _uid: self.memory, lambda _namespace: True)
        self._document = document

    def text(self) -> bytes:
        """The answer to a scrape."""
        return self.metrics.text() + self._resources.text()

    def look(self) -> None:
        """Ask the job once, as a pass does."""
        started = time.monotonic()
        with urllib.request.urlopen(f"http://{self._job}/progress", timeout=5) as answer:
            report = ProgressReport.model_validate(json.load(answer))
        now = datetime.now(UTC).replace(microsecond=0)
        commit = report.last_commit
        last = None if commit is None else LastCommit(instant=commit.instant, time=commit.at, rows=commit.rows)
        ready = Condition(type="Ready", status="True", reason="Running", last_transition_time=now)
        status = Status(
            phase="Running", attempt=1, attempts=(Attempt(number=1),), conditions=(ready,), last_commit=last
        )
        metadata = {
            "namespace": NAMESPACE,
            "name": NAME,
            "uid": "0-1",
            "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "resourceVersion": "1",
            "generation": 1,
        }
        self.inventory.take({**self._document, "metadata": metadata, "status": status.to_document()})
        self.memory.counts.note_report("pod", report, status, from_its_start=True)
        self.memory.talk = Talk("pod", report, time.monotonic())
        self.metrics.took(time.monotonic() - started)


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with some messages."""
    name = f"monitored-{uuid.uuid4()}"
    kafka_broker.create_topic(name, partitions=2)
    send(kafka_broker, name)
    return name


@pytest.fixture(params=[{"buckets": 4}], ids=["bucket"])
def pipeline(request: pytest.FixtureRequest, kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> Path:
    """A healthy BucketIngest with the index that the parameter says; some rows of its input do not decode."""
    spec = {
        "source": {"kafka": {"bootstrapServers": kafka_broker.bootstrap_servers, "topics": [topic]}},
        "format": {"type": "json", "schema": "id BIGINT, text STRING, gone BOOLEAN"},
        "table": {
            "path": str(tmp_path / "table"),
            "recordKey": ["id"],
            "deleteWhen": "gone",
            "index": request.param,
        },
        "commit": {"interval": "2s", "trigger": "1s"},
        "services": {"mode": "inline"},
        "slo": {"commitLatency": "60s", "freshness": "5m", "readOptimizedFreshness": "5m"},
    }
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": spec,
    }
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture
def job(pipeline: Path, tmp_path: Path) -> Iterator[str]:
    """host:port of the endpoints of a running job that has committed."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with CommandProcess("run", pipeline, "--listen", address, log=tmp_path / "run.log") as process:
        process.wait_until(lambda: '"event": "committed"' in process.output)
        yield address


@pytest.mark.kafka
def test_every_panel_shows_data_and_a_healthy_pipeline_fires_no_alert(
    job: str, pipeline: Path, kafka_broker: KafkaBroker, topic: str
) -> None:
    operator = OfOperator(yaml.safe_load(pipeline.read_text()), job)
    operator.look()
    routes = {"/metrics": lambda: Answer(operator.text(), CONTENT_TYPE)}
    with (
        Endpoints("127.0.0.1", 0, routes) as endpoints,
        Prometheus([job, f"127.0.0.1:{endpoints.port}"], [rules_file()]) as prometheus,
    ):
        deadline = time.monotonic() + DATA_WITHIN_SECONDS
        while empty := without_data(prometheus, NAMESPACE, NAME):
            assert time.monotonic() < deadline, f"no data: {empty}"
            send(kafka_broker, topic)
            time.sleep(1)
            operator.look()
        firing = [each["labels"]["alertname"] for each in prometheus.alerts() if each["state"] == "firing"]
        # It has rows that do not decode: this alert is correct.
        assert set(firing) <= {"BucketIngestDeadLetters"}


@pytest.mark.kafka
@pytest.mark.parametrize("pipeline", [{"type": "state"}], ids=["state"], indirect=True)
def test_an_index_with_a_state_shows_itself(job: str, kafka_broker: KafkaBroker, topic: str) -> None:
    with Prometheus([job], []) as prometheus:
        deadline = time.monotonic() + DATA_WITHIN_SECONDS
        while empty := without_data(prometheus, NAMESPACE, NAME, of_state=True):
            assert time.monotonic() < deadline, f"no data: {empty}"
            send(kafka_broker, topic)
            time.sleep(1)
