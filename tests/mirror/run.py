"""A whole run: a database, Debezium, a broker and the job; changes and kills; and what the table has at each look."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import yaml
from confluent_kafka import Consumer, TopicPartition

from devservers.kafka import KafkaBroker
from devservers.locations import require
from devservers.mirror.databases import MariaDB, Postgres
from devservers.mirror.debezium import DebeziumServer
from mirror.changes import Changes
from mirror.own import own_rows
from mirror.sources import DDL, MariaDBSource, PostgresSource, Source
from mirror.whole import instants, shown_in_part
from soak.job.attempt import Attempt
from soak.job.processes import Role
from soak.waiting import SoakFailed, until
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows, without_meta_columns

_MARKER: Final = 0
"""The key of a row that is written last: when the table here has it, it has all that came before."""
_BEFORE: Final = 40
"""Transactions before Debezium starts: its snapshot has their rows."""
_POLL_SECONDS: Final = 0.5
SOURCES: Final = {"postgresql": (Postgres, PostgresSource), "mariadb": (MariaDB, MariaDBSource)}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is asked to do."""

    database: str
    seed: int
    looks: int
    """How often everything is compared."""
    transactions: int
    """Between two looks."""
    kills: int
    """Between two looks."""
    keys: int = 300
    truncates: bool = True
    whole: bool = False
    """Each commit must have whole transactions."""
    most: int = 20_000
    """Messages of a micro-batch: fewer end in the middle of more transactions."""
    patience: float = 300.0
    """Seconds until the table has all that was committed."""


@dataclass(slots=True)
class Report:
    """What a run did and found."""

    changes: dict[str, int] = field(default_factory=dict)
    events: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    rows: int = 0
    """That were compared, in all looks."""
    commits: int = 0
    """That were looked at for transactions in part."""


class Mirror:
    """The servers and the job of one run, in a folder that stays."""

    def __init__(self, settings: Settings, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> None:
        self._settings, self._folder, self._say = settings, folder, say
        self.table = folder / "table"
        self._draw = random.Random(f"kills {settings.seed}")
        self.report = Report()
        self._broker = stack.enter_context(KafkaBroker())
        server, source = SOURCES[settings.database]
        self.source: Source = source(stack.enter_context(server()))
        stack.callback(self.source.close)
        for topic in (self.source.topic, *self.source.other_topics):
            self._broker.create_topic(topic)
        self.changes = Changes(self.source, settings.seed, keys=settings.keys, truncates=settings.truncates)
        for _ in range(_BEFORE):
            self.changes.step()
        self._debezium = stack.enter_context(
            DebeziumServer(
                self.source.database,
                self._broker.bootstrap_servers,
                prefix=self.source.prefix,
                settings={"debezium.source.offset.flush.interval.ms": "2000", **self.source.settings},
            )
        )
        self._attempts = 0
        self._looked_at: set[str] = set()
        self._job = self._start()
        stack.callback(self._kill_job)

    def _start(self) -> Attempt:
        self._attempts += 1
        file = self._folder / "resource.yaml"
        file.write_text(yaml.safe_dump(self._resource()))
        environment = {
            "MASTER": "local[2]",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "BUCKETINGEST_JARS": str(require("connectors")),
        }
        return Attempt(self._attempts, file, self._folder / f"attempt-{self._attempts:03}.log", environment)

    def _resource(self) -> dict[str, object]:
        source = {"bootstrapServers": self._broker.bootstrap_servers, "topics": [self.source.topic]}
        truncate = {"truncate": "delete"} if self._settings.truncates else {}
        limit, at = self._settings.most, "transaction" if self._settings.whole else "any"
        return {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "mirror"},
            "spec": {
                "source": {"kafka": {**source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}},
                "format": {"type": "json", "schema": DDL, "envelope": {**self.source.envelope, **truncate}},
                "table": {
                    "path": str(self.table),
                    **self.source.table,
                    "lock": {"leaseValidity": "10s", "waitTimeout": "60s"},
                },
                "commit": {"mode": "interval", "interval": "2s", "trigger": "0s", "at": at},
                "services": {"mode": "inline", "compaction": {"logFiles": 4}},
                "errors": {"mode": "fail"},
                "checkpoint": {"path": str(self._folder / "checkpoints")},
                "spark": {"driver": {"memory": "1Gi"}},
            },
        }

    def _kill_job(self) -> None:
        self._job.kill_all()

    def kill(self) -> Callable[[], object]:
        """One of the programs. Returns what lets it start again."""
        kind = self._draw.choice(("Debezium", "broker", "driver", "workers"))
        self.report.kills[kind] = self.report.kills.get(kind, 0) + 1
        match kind:
            case "Debezium":
                self._debezium.kill()
                return self._debezium.start
            case "broker":
                self._broker.kill()
                return self._broker.start
            case "driver":
                self._job.kill_all()
                return self._restart
            case _:
                self._job.signal(self._job.processes(Role.WORKER), signal.SIGKILL)
                return lambda: None

    def _restart(self) -> None:
        self._job = self._start()

    def look(self, *readers: Callable[[], pa.Table]) -> None:
        """Wait until the table here has all that was committed, and compare every row. Raises AssertionError."""
        self.report.looks += 1
        marker = f"look {self.report.looks}"
        self.source.run([(self.source.upsert, (_MARKER, marker))])
        started = time.monotonic()
        until(lambda: self._has(marker), f"the table has {marker}", within=self._settings.patience, poll=_POLL_SECONDS)
        expected = self.source.rows()
        for reader in (self._rows, lambda: own_rows(self.table), *readers):
            assert_same_rows(reader(), expected, ["id"])
            self.report.rows += expected.num_rows
        self._look_at_commits(judged=self._settings.whole and self.report.looks > 1)
        self._say(f"{marker}: {expected.num_rows} rows are the same, after {time.monotonic() - started:.0f} s")

    def _look_at_commits(self, *, judged: bool) -> None:
        """Those since the last look. Rows of the first snapshot are no transaction: they are not `judged`."""
        new = [each for each in instants(self.table) if each not in self._looked_at]
        self._looked_at.update(new)
        for each in new if judged else ():
            assert not (found := shown_in_part(self.table, each)), f"commit {each} has groups {found} in part"
            self.report.commits += 1

    def _has(self, marker: str) -> bool:
        if self._job.code is not None:
            code, said = self._job.code, self._job.last_words()
            self._job.kill_all()
            if not self.report.kills:
                raise SoakFailed(f"the job ended with {code}: {said}\n{self._job.tail()}")
            self._say(f"the job ended with {code} and starts again: {said[:300]}")
            self._restart()
        if not (self.table / ".hoodie" / "hoodie.properties").exists():
            return False
        rows = self._rows()
        return rows.num_columns > 0 and (_MARKER, marker) in zip(
            rows["id"].to_pylist(), rows["grp"].to_pylist(), strict=True
        )

    def _rows(self) -> pa.Table:
        return without_meta_columns(hudi_rs.snapshot(self.table))

    def events(self) -> int:
        """Messages of the topic."""
        consumer = Consumer({"bootstrap.servers": self._broker.bootstrap_servers, "group.id": "none", "log_level": 0})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(self.source.topic, 0), timeout=30.0)[1])
        finally:
            consumer.close()

    def stop(self) -> None:
        """End the job in order."""
        self._job.signal(self._job.processes(Role.DRIVER), signal.SIGTERM)
        self._job.wait_until_gone("SIGTERM at the end")


def mirror(settings: Settings, folder: Path, say: Callable[[str], None], oracle: HudiOracle | None = None) -> Report:
    """Run it all in an empty folder. Raises AssertionError with the rows that differ, SoakFailed."""
    with ExitStack() as stack:
        run = Mirror(settings, folder, stack, say)
        draw = random.Random(f"moments {settings.seed}")
        readers = [] if oracle is None else [lambda: oracle.snapshot(run.table)]
        run.look(*readers)  # so that all of it runs before the first kill
        for _ in range(settings.looks):
            moments = Counter(draw.choices(range(settings.transactions), k=settings.kills))
            revive: Callable[[], object] | None = None
            until_then = 0
            for number in range(settings.transactions):
                run.changes.step()
                if revive is not None and number >= until_then:
                    revive()
                    revive = None
                for _ in range(moments[number]):
                    if revive is not None:
                        revive()
                    revive, until_then = run.kill(), number + draw.randint(0, settings.transactions // 5)
            if revive is not None:
                revive()
            run.look(*readers)
        run.stop()
        run.report.changes = dict(run.changes.counts)
        run.report.events = run.events()
        return run.report
