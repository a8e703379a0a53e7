"""A whole soak: servers, traffic, the pipeline, one fault after the other, and the judgement."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.protocol.records import End as CompactionEnd
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker
from soak.damage import Checkpoints
from soak.fault_plan import Fault, plan
from soak.faults import FaultCarrier
from soak.hudi import HudiNeighbour
from soak.job.pipeline import End, Pipeline
from soak.job.processes import RUN_MARK, Role
from soak.job.resource import PIPELINE, Places, cluster_environment
from soak.judge.figures import Recovery
from soak.judge.judgement import Judgement, judge, with_later
from soak.judge.watch import TableWatch
from soak.traffic import PARTITIONS, TOPIC, Traffic
from soak.waiting import SoakFailed, until
from support.oracle import hudi_rs


@dataclass(frozen=True, slots=True)
class Settings:
    """What a soak is asked to do."""

    seed: int
    faults: list[Fault]
    rows_per_second: int = 200
    patience: float = 120.0
    """Seconds that a next commit may take."""
    interval: bool = True
    """Whether attempts may commit by interval."""

    @classmethod
    def of(cls, seed: int, kills: int, **further: object) -> Settings:
        """The settings of a run with all kinds of faults."""
        return cls(seed, plan(seed, kills), **further)  # type: ignore[arg-type] # handed on as they are


@dataclass(slots=True)
class Report:
    """What a soak did and found."""

    seed: int
    faults: int = 0
    kills: int = 0
    attempts: int = 0
    seconds: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    hudi_writes: int = 0
    hudi_services: dict[str, int] = field(default_factory=dict)
    """How many of them had each service."""
    compactions: int = 0
    """Of the pipeline's own, those that were completed."""
    hudi_failures: list[str] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    unexpected_ends: list[End] = field(default_factory=list)
    judgement: Judgement | None = None
    failure: str | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, doubled, made up or left hanging."""
        return self.failure is None and self.judgement is not None and not self.judgement.wrong


def soak(settings: Settings, folder: Path, say: Callable[[str], None]) -> Report:
    """Run a soak in an empty folder, which keeps table and logs. No process of it is left, however it ends."""
    report = Report(settings.seed)
    started = time.monotonic()
    places = Places(folder)
    places.log(0).parent.mkdir(parents=True)
    with _guarded(), ExitStack() as stack:
        environment = cluster_environment(places)
        broker = stack.enter_context(KafkaBroker())
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        traffic = Traffic(broker.bootstrap_servers, settings.seed, settings.rows_per_second)
        stack.callback(_stop, traffic)
        watch = TableWatch(places.table, PIPELINE)
        modes = random.Random(f"modes {settings.seed}")
        servers = broker.bootstrap_servers
        pipeline = Pipeline(places, servers, environment, watch, modes, settings.interval, settings.patience, say)
        stack.callback(pipeline.kill_all)
        hudi = HudiNeighbour(places.table, say)
        stack.callback(hudi.close)
        carrier = FaultCarrier(pipeline, hudi, Checkpoints(places.checkpoints, folder / "spare"), say)
        try:
            traffic.start()
            pipeline.start()
            pipeline.wait_for_commit(0.0, "the first start")
            _faults(settings, carrier, report, say)
            _catch_up(traffic, pipeline, say)
            expected = pa.concat_tables([traffic.expected(), hudi.expected()])
            readers = {
                "hudi-rs": lambda: hudi_rs.snapshot(places.table),
                "Hudi's reader": lambda: hudi.oracle.snapshot(places.table),
            }
            report.judgement = judge(watch, expected, traffic.ends, readers)
            hudi.compact()  # which finds a plan or a slice that would lose rows only then
            again = judge(watch, expected, traffic.ends, readers)
            report.judgement = with_later(report.judgement, again, "after a last compaction")
        except KeyboardInterrupt:
            report.failure = "interrupted"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the soak found
            report.failure = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        finally:
            report.kills = carrier.kills
            report.attempts = pipeline.attempts
            report.sent = dict(traffic.counts)
            report.hudi_writes, report.hudi_failures = hudi.writes, hudi.failures
            report.hudi_services = dict(hudi.services)
            report.compactions = _completed_compactions(places.table)
            report.unexpected_ends = [end for end in pipeline.ends if not end.expected]
            report.seconds = time.monotonic() - started
    return report


def _faults(settings: Settings, carrier: FaultCarrier, report: Report, say: Callable[[str], None]) -> None:
    started = time.monotonic()
    for fault in settings.faults:
        began = time.monotonic()
        recovery = carrier.carry_out(fault)
        report.faults += 1
        took = f"{time.monotonic() - began:.1f} s"
        if recovery is not None:
            report.recoveries.append(recovery)
            took = f"next commit after {recovery.total:.1f} s"
        say(f"{time.monotonic() - started:6.0f} s  {fault.number:3}. {fault}: {took}")


def _catch_up(traffic: Traffic, pipeline: Pipeline, say: Callable[[str], None]) -> None:
    """Rows and faults have ended: now the table must get all rows, and a graceful stop must be graceful."""
    say("all rows sent; catching up")
    traffic.finish()
    while pipeline.watch.ends() != traffic.ends:
        pipeline.wait_for_commit(pipeline.watch.newest(), f"the last row was sent: {traffic.ends}")
    attempt = pipeline.current
    attempt.signal(attempt.processes(Role.DRIVER), signal.SIGTERM)
    attempt.wait_until_gone("SIGTERM at the end")
    if attempt.code != 0:
        raise SoakFailed(f"SIGTERM at the end ended it with {attempt.code}; {attempt.tail()}")


def _completed_compactions(table: Path) -> int:
    journal = CompactionJournal(open_storage(str(table)))
    return sum(journal.done(number) is CompactionEnd.COMPLETED for number in journal.numbers())


def _stop(traffic: Traffic) -> None:
    if traffic.is_alive():
        with suppress(RuntimeError):
            traffic.finish()


@contextmanager
def _guarded() -> Iterator[None]:
    """Everything that is started inside ends with it: by the guardian even if this process is killed."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    guardian = subprocess.Popen(
        [sys.executable, "-m", "soak.job.guardian", mark],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    before = os.environ.get(RUN_MARK)
    os.environ[RUN_MARK] = mark
    try:
        yield
    finally:
        if before is None:
            del os.environ[RUN_MARK]
        else:
            os.environ[RUN_MARK] = before
        assert guardian.stdin is not None, "asked for"
        guardian.stdin.close()
        until(lambda: guardian.poll() is not None, "everything started is gone", within=60.0)
