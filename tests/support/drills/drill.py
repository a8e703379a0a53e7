"""A real pipeline in a drill: what was sent to it, what is expected of it, and what a trouble is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from devservers.kafka import KafkaBroker
from devservers.produce import produce
from support.drills.disks import SmallDisk
from support.drills.real import RealPipeline
from support.drills.recording import STEP_SECONDS
from support.drills.shell import Shell
from support.drills.situation import YOUNG, alerts
from support.oracle import hudi_rs
from support.proxy import Proxy

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
    topic: str = TOPIC
    disk: SmallDisk | None = None
    """That of the table; None: it cannot be filled."""
    store: Proxy | None = None
    """Before the store that the table is in; None: it is in files."""
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
        produce(self.broker.bootstrap_servers, self.topic, messages)
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
    drill: str = "drill"
    """The fixture with the pipeline that it happens to."""


def says(**pages: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """Page → a part of a command's line → what it must print. Names have _ for -."""
    return {name.replace("_", "-"): lines for name, lines in pages.items()}
