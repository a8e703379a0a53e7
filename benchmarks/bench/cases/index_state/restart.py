"""From the kill of a driver to the first commit of the next attempt: with the state on disk, and with it lost."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult, row_count
from bench.cases.restart import ROWS, TOPIC_PARTITIONS, Attempt, medians, send, write_resource
from bench.data import ORDERS, write_input
from bench.results_format import Case, Measured
from bench.sides.client import wait_until_quiet
from bench.sides.start import MASTER, Source, Target, start_ours
from bucketingest.index.state.store import forget_state
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker

_FACTOR: Final = 10
"""The table has so many times the rows of an upsert of the other cases."""
_LOAD_FILES: Final = 16
"""In a micro-batch of the load."""


@dataclass(slots=True)
class _Pipeline:
    """One table, and what its restarts took."""

    folder: Path
    target: Target
    loses_state: bool = False
    sent: int = 0
    seconds: list[float] = field(default_factory=list)
    splits: list[dict[str, float]] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """Its own: each pipeline reads its messages once."""
        return self.folder.name

    @property
    def local(self) -> Path:
        """Where the machine keeps runs."""
        return self.folder / "tmp"

    def begin(self, broker: KafkaBroker) -> None:
        """Before the first attempt."""
        self.local.mkdir()
        broker.create_topic(self.topic, partitions=TOPIC_PARTITIONS)
        index = {"type": "state"} if self.target.state else {"buckets": self.target.buckets}
        # A compaction of 20M rows beside the starts, due in one of the tables only, would be measured with them.
        write_resource(self.folder, broker.bootstrap_servers, self.topic, index, services="off")

    def restart(self, broker: KafkaBroker, number: int) -> float:
        """Start an attempt, wait for its commit, and kill it within the next instant; seconds to the commit."""
        if self.loses_state:
            forget_state(open_storage(str(self.target.table)))
            shutil.rmtree(self.local)
            self.local.mkdir()
        self.sent += send(self.folder, broker, self.topic, first=self.sent)
        with Attempt(self.folder, number, {"TMPDIR": str(self.local)}) as attempt:
            took = attempt.wait_until("committed")
            split = attempt.stages()
            self.sent += send(self.folder, broker, self.topic, first=self.sent)
            attempt.wait_for_inflight(self.target.table)
        if number:
            self.seconds.append(took)
            self.splits.append(split)
        return took


def state_restart_cases(name: str, options: Options) -> Iterator[Case]:
    """Three pipelines in turns: state on disk, state lost, and our bucket index."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    keys = options.rows * _FACTOR
    pipelines = {
        "warm": _Pipeline(folder / "warm", Target(folder / "warm", ORDERS, state=True)),
        "lost": _Pipeline(folder / "lost", Target(folder / "lost", ORDERS, state=True), loses_state=True),
        "buckets": _Pipeline(folder / "buckets", Target(folder / "buckets", ORDERS)),
    }
    _load(folder, pipelines, keys)
    loads = []
    with KafkaBroker(folder / "kafka") as broker:
        for pipeline in pipelines.values():
            pipeline.begin(broker)
        for number in range(options.repeats + 1):
            load = wait_until_quiet(options.load_max, options.wait_seconds_max)
            for title, pipeline in pipelines.items():
                took = pipeline.restart(broker, number)
                options.say(f"  {f'restart {number}' if number else 'first start'}, {title}: {took:.2f} s")
            if number:
                loads.append(round(load, 2))
        for pipeline in pipelines.values():
            with Attempt(pipeline.folder, options.repeats + 1, {"TMPDIR": str(pipeline.local)}) as last:
                last.wait_until("committed")
            if (found := row_count(pipeline.target.table)) != keys:
                raise WrongResult(f"{pipeline.target.table} holds {found} rows, not {keys}")
    shutil.rmtree(folder)
    for title, what in {
        "warm": "The state is on the machine's disk and in storage.",
        "lost": "All of the state is deleted before: it is loaded from the table's files.",
    }.items():
        case = _case(f"{name}-{title}", what, keys, pipelines[title], pipelines["buckets"])
        yield case.model_copy(update={"load_average": tuple(loads)})


def _load(folder: Path, pipelines: dict[str, _Pipeline], keys: int) -> None:
    write_input(ORDERS, folder / "load", rows=keys, seed=0)
    load = Source("files", path=str(folder / "load"), files_at_once=_LOAD_FILES)
    with start_ours(folder) as ours:
        for title in ("warm", "buckets"):
            pipelines[title].folder.mkdir()
            ours.ask(**pipelines[title].target.ours(load, 0))
    shutil.rmtree(folder / "load")
    pipelines["lost"].folder.mkdir()
    shutil.copytree(pipelines["warm"].target.table, pipelines["lost"].target.table)


def _case(name: str, what: str, keys: int, state: _Pipeline, buckets: _Pipeline) -> Case:
    ours = Measured.of("with a state", [each * 1000 for each in state.seconds])
    peer = Measured.of("bucket index", [each * 1000 for each in buckets.seconds])
    return Case.of(
        case=name,
        what=(
            f"A table of {keys:,} rows with an index with a state, and one with buckets. {what} A driver and all its "
            "processes are killed (SIGKILL) while an instant is inflight. Measured: from the start of the next "
            f"driver's process to the commit of its first micro-batch, {ROWS:,} to {2 * ROWS:,} updates as JSON from "
            f"Kafka; Spark {MASTER}, no table services. At the end hudi-rs must find every key once."
        ),
        unit="ms",
        rows=ROWS,
        ours=ours,
        peer=peer,
        notes=(
            f"the state adds {ours.median - peer.median:,.0f} ms, by the medians",
            f"medians of the stages with a state: {medians(state.splits)}",
            f"with buckets: {medians(buckets.splits)}",
        ),
        versions={"pyarrow (ours)": pa.__version__, "python": sys.version.split()[0]},
    )
