"""What really happens to one pipeline, one trouble after the other: how it is seen, and what leads out of it.

Each trouble is caused on a real broker, a real table and a real `bucketingest run`, and then held for some minutes of
the cluster's time (see `support.drills.real`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bucketingest.exit_codes import ExitCode
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from support.drills.real import RealPipeline
from support.drills.recording import STEP_SECONDS
from support.drills.shell import Shell
from support.drills.situation import LATE, YOUNG, alerts
from support.oracle import hudi_rs
from support.tables.other_writers import roll_back_completed
from support.tables.table_runs import TestTable

TOPIC: Final = "orders"
QUICK: Final = {
    "kafka.default.api.timeout.ms": "2000",
    "kafka.request.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}
"""With Spark's own patience, a query whose broker is away ends after minutes only."""


BURNT: Final = YOUNG | alerts("FreshnessFastBurn")
"""What an outage of twenty minutes leaves for hours: too much of the error budget is used."""


@dataclass
class Drill:
    """Broker, pipeline and shell, and what has been produced."""

    broker: KafkaBroker
    pipeline: RealPipeline
    shell: Shell
    table: Path
    sent: list[int] = field(default_factory=list)
    expected: dict[str, frozenset[str]] = field(default_factory=dict)
    """Time of the recording → the alerts that fire then."""
    poisoned: int = 0
    """Messages that do not decode, so far."""
    kept: tuple[Path, bytes] | None = None
    """A file that was deleted, and its content."""

    def send(self, count: int) -> None:
        """So many new rows, in two partitions."""
        numbers = range(len(self.sent), len(self.sent) + count)
        messages = [(str(each).encode(), json.dumps({"id": each, "text": "x"}).encode()) for each in numbers]
        produce(self.broker.bootstrap_servers, TOPIC, messages)
        self.sent += numbers

    def expect(self, firing: frozenset[str]) -> None:
        """Exactly these alerts fire at the newest scrape."""
        self.expected[f"{(self.pipeline.recording.steps - 1) * STEP_SECONDS}s"] = firing

    def rows_are_in(self) -> None:
        """All that was sent is in the table once, or in one dead letter."""
        self.pipeline.until(self._is_all_in)
        letters = Path(f"{self.table}_dead_letters").glob("*.parquet")
        assert sum(pq.read_metadata(file).num_rows for file in letters) == self.poisoned

    def _is_all_in(self) -> bool:
        now = self.pipeline.now  # says of what was just sent nothing before the query has looked
        done = (now.lag.offsets, now.idle, now.inflight) == (0, True, None)
        return done and sorted(hudi_rs.snapshot(self.table)["id"].to_pylist()) == self.sent


@dataclass(frozen=True, slots=True)
class Trouble:
    """One row.

    Attributes:
        causes: Lets it happen, and waits until the job has met it.
        minutes: How long the cluster's time then goes on.
        alerts: Exactly those that fire then.
        page: Commands of runbooks, page → a part of the line → a part of what it prints.
        remedy: What leads out of it; then `Drill.rows_are_in` is asked.
    """

    story: str
    causes: Callable[[Drill], None]
    minutes: float
    alerts: frozenset[str]
    pages: Mapping[str, Mapping[str, str]]
    remedy: Callable[[Drill], None]


def _a_poisoned_message(drill: Drill) -> None:
    produce(drill.broker.bootstrap_servers, TOPIC, [(b"1", b"no json")])
    drill.poisoned += 1
    drill.pipeline.until(lambda: drill.pipeline.now.dead_letters == 1)


def _nothing(_: Drill) -> None:
    """The page's way out asks nothing of the pipeline."""


def _another_writer_rolls_back(drill: Drill) -> None:
    table = TestTable()
    table.storage = open_storage(str(drill.table))
    roll_back_completed(table, table.timeline().completed_commits[-1].request_time)
    drill.send(10)
    drill.pipeline.until(lambda: drill.pipeline.now.position_losses == 1)
    drill.rows_are_in()  # else the moment in which the query starts again would last for minutes


def _the_broker_is_killed(drill: Drill) -> None:
    job = drill.pipeline.job
    assert job is not None
    drill.broker.kill()
    drill.pipeline.until(lambda: "waiting for Kafka" in job.process.output)
    now = drill.pipeline.now
    assert (now.phase, now.lag.offsets, now.lag.seconds, now.idle) == ("waiting", None, None, False)


def _the_broker_is_back(drill: Drill) -> None:
    drill.broker.start()
    drill.send(10)
    drill.pipeline.until(lambda: (source := drill.pipeline.now.source) is not None and source.answers)


def _files_are_deleted(drill: Drill) -> None:
    drill.pipeline.kill()
    shutil.rmtree(drill.table.parent / "checkpoint")
    lost = next(path for path in sorted(drill.table.rglob(".*.log.*")) if ".hoodie" not in path.parts)
    drill.kept = (lost, lost.read_bytes())
    lost.unlink()
    drill.pipeline.starts()
    drill.pipeline.until(lambda: (services := drill.pipeline.now.services) is not None and services.damaged_files == 1)


def _the_file_is_restored(drill: Drill) -> None:
    assert drill.kept is not None
    file, content = drill.kept
    file.write_bytes(content)
    (said,) = drill.shell.type("bucketingest inspect /tables/orders")
    assert file.name not in said.output, said
    drill.send(10)


def _the_topic_is_made_again(drill: Drill) -> None:
    drill.broker.delete_topic(TOPIC)
    drill.broker.create_topic(TOPIC, partitions=2)
    drill.send(300)
    assert drill.pipeline.fails().exit_code == ExitCode.SOURCE_CONFLICT


def _a_pipeline_with_a_new_name(drill: Drill) -> None:
    """As the page says: the same table, another name and checkpoint."""
    old = drill.pipeline
    old.end()
    spec = {**old.cluster.spec, "checkpoint": {"path": str(drill.table.parent / "checkpoint2")}}
    folder = old.folder / "second"
    folder.mkdir()
    drill.pipeline = RealPipeline(folder, name="orders2", **spec)
    drill.pipeline.starts()


def says(**pages: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """Page → a part of a command's line → what it must print. Names have _ for -."""
    return {name.replace("_", "-"): lines for name, lines in pages.items()}


TROUBLES: Final = (
    Trouble(
        "a message does not decode",
        _a_poisoned_message,
        2,
        alerts("DeadLetters"),
        says(dead_letters={"grep -i rejected": "decode"}, many_dead_letters={"grep -i rejected": "decode"}),
        _nothing,
    ),
    Trouble(
        "another writer rolls a commit back",
        _another_writer_rolls_back,
        2,
        alerts("DeadLetters", "CommitsRolledBack", "CheckpointRebuilt"),
        says(
            commits_rolled_back={
                "starting again": "another writer",
                "bucketingest inspect": "rollback",
            }
        ),
        _nothing,
    ),
    Trouble(
        "the broker is killed",
        _the_broker_is_killed,
        22,
        LATE | YOUNG | alerts("DeadLetters", "CommitsRolledBack", "CheckpointRebuilt", "SourceUnavailable", "NotReady"),
        says(
            source_unavailable={"get bi": "SourceUnavailable", "logs": "Kafka does not answer"},
            commits_late={"get pods": "driver", "logs": "waiting for Kafka"},
            not_ready={'type=="Ready"': "SourceUnavailable"},
        ),
        _the_broker_is_back,
    ),
    Trouble(
        "the driver is killed, and somebody deletes its checkpoint and a data file",
        _files_are_deleted,
        3,
        BURNT | alerts("CheckpointRebuilt", "DamagedFiles", "CommitsRolledBack", "DeadLetters", "SourceUnavailable"),
        says(
            checkpoint_rebuilt={"CheckpointHealthy": "checkpoint", "grep verdict": "rebuilt"},
            damaged_files={"ServicesHealthy": "DataFilesDamaged", "bucketingest inspect": "rows"},
            restart_storm={"status.attempts": "DriverLost"},
        ),
        _the_file_is_restored,
    ),
    Trouble(
        "the topic is deleted, made again, and grows",
        _the_topic_is_made_again,
        7,
        BURNT | alerts("Stalled", "CommitsRolledBack"),
        says(stalled={'type=="Stalled"': "SourceConflict", "describe": "made again"}),
        _a_pipeline_with_a_new_name,
    ),
)
