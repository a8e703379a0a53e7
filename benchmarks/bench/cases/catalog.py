"""The cases: what each compares, on which input, and the description of the measured interval."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, Protocol

from bench.cases.commit import commit_file_groups_cases, commit_rows_case
from bench.cases.comparison import Options, Pair, alternate, upsert_pair
from bench.cases.index_state.figures import state_cases
from bench.cases.index_state.restart import state_restart_cases
from bench.cases.index_state.upsert import (
    state_buckets_cases,
    state_global_cases,
    state_record_cases,
    state_upsert_cases,
)
from bench.cases.inputs import TOPIC_PARTITIONS, in_kafka, make_inputs
from bench.cases.memory import memory_case
from bench.cases.restart import restart_case
from bench.cases.scaling import scaling_cases
from bench.cases.services.beside import services_beside_cases
from bench.cases.services.compaction import compaction_cases
from bench.cases.services.compaction_memory import compaction_memory_cases
from bench.cases.services.flat import services_day_cases, services_flat_cases
from bench.cases.services.lock import services_lock_cases
from bench.cases.services.scale import services_scale_cases
from bench.cases.services.tidy import services_tidy_cases
from bench.cases.steady.files import instant_files_case
from bench.cases.steady.freshness import freshness_case
from bench.data import NUMBERS, ORDERS, TEXTS, Dataset
from bench.messages import Encoding
from bench.results_format import Case
from bench.sides.client import Run
from bench.sides.start import BUCKETS, HEAP, MASTER, Target, start_hudi, start_ours, versions

HUDI: Final = "Hudi 1.2.0 on Spark 3.5"

_FILES_INTERVAL: Final = (
    "Measured: ours from the call that starts the pipeline (open the table, recovery, query start, listing of the "
    "input folder, one micro-batch) until the query has ended, its instant committed; Hudi's from spark.read.parquet "
    "to the return of save(), its instant committed. Sessions are up and warm on both sides."
)
_KAFKA_INTERVAL: Final = (
    "Measured: ours from the call that starts the pipeline (availableNow, new checkpoint) until the query has ended; "
    "Hudi's from readStream to the end of its streaming sink's availableNow query. Both read the whole topic from a "
    "broker on this machine, whose CPU time is not counted, in one micro-batch, decode it (ours on Arrow, Hudi's with "
    "Spark's from_json, from_avro or from_protobuf) and commit one instant."
)


@dataclass(frozen=True, slots=True)
class Upsert:
    """All rows of a table upserted again, ours and Hudi in turns."""

    name: str
    dataset: Dataset
    log_block: Literal["parquet", "avro"]
    source: Literal["files"] | Encoding
    buckets: int = BUCKETS

    def run(self, options: Options) -> list[Case]:
        """Measure."""
        folder = options.scratch / self.name
        shutil.rmtree(folder, ignore_errors=True)
        sources, bytes_per_row = make_inputs(self.dataset, options)
        with contextlib.ExitStack() as running:
            if self.source != "files":
                sources = running.enter_context(in_kafka(self.dataset, sources, self.source, options))
            targets = [
                Target(folder / side, self.dataset, self.log_block, buckets=self.buckets) for side in ("ours", "hudi")
            ]
            for target in targets:
                target.folder.mkdir(parents=True)
            ours = running.enter_context(start_ours(targets[0].folder))
            hudi = running.enter_context(start_hudi(targets[1].folder))
            pair = upsert_pair(options, sources, (ours, targets[0]), (hudi, targets[1]))
            ran = versions(ours.ask(op="versions"), hudi.ask(op="versions"))
        shutil.rmtree(folder)
        return [_case(self.name, self._what(options.rows, bytes_per_row), options, pair, peer=HUDI, ran=ran)]

    def _what(self, rows: int, bytes_per_row: float) -> str:
        partitions = 4 if self.dataset.partition_by else 1
        origin = (
            "Parquet files"
            if self.source == "files"
            else f"messages ({self.source}) in a topic of {TOPIC_PARTITIONS} partitions"
        )
        return (
            f"Upsert of {rows:,} rows ({self.dataset.name}, {bytes_per_row:.0f} B a row in Arrow's form) from {origin} "
            f"over the same keys, loaded once before, into a merge-on-read table of {partitions} "
            f"partition{'s' * (partitions > 1)} x {self.buckets} buckets on the local file system; {self.log_block} "
            f"log blocks, Spark {MASTER}, heap {HEAP}, no metadata table, no table services. "
            f"{_FILES_INTERVAL if self.source == 'files' else _KAFKA_INTERVAL}"
        )


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Our writer against the same query with a writer that only counts the rows that reach Python."""

    name: str = "ceiling"

    def run(self, options: Options) -> list[Case]:
        """Measure."""
        folder = options.scratch / self.name
        shutil.rmtree(folder, ignore_errors=True)
        sources, _ = make_inputs(ORDERS, options)
        target = Target(folder, ORDERS)
        source = sources.measured
        folder.mkdir(parents=True)
        with start_ours(folder) as ours:
            ours.ask(**target.ours(sources.load, 0))

            def write(number: int) -> Run:
                return ours.measure(**target.ours(source, number + 1))

            def count(number: int) -> Run:
                run = ours.measure(op="ceiling", path=source.path, checkpoint=str(folder / f"counted-{number}"))
                assert run.answer["rows"] == options.rows, "the counter saw another number of rows"
                return run

            pair = alternate(options, write, count)
            ran = versions(ours.ask(op="versions"), {})
        shutil.rmtree(folder)
        what = (
            f"The limit that Spark and the transfer to Python set: upsert of {options.rows:,} rows ({ORDERS.name}, "
            "Parquet files, Parquet log blocks) against the same streaming query whose micro-batch only counts the "
            "Arrow batches it gets (mapInArrow). Both run in one process and session, from the start of the query to "
            "its end."
        )
        return [_case(self.name, what, options, pair, peer="counting only", ran=ran)]


@dataclass(frozen=True, slots=True)
class Several:
    """A benchmark with a module of its own, which says what it measures."""

    name: str
    measure: Callable[[str, Options], Iterable[Case]]

    def run(self, options: Options) -> Iterable[Case]:
        """Measure."""
        return self.measure(self.name, options)


@dataclass(frozen=True, slots=True)
class One:
    """The same, with one result."""

    name: str
    measure: Callable[[str, Options], Case]

    def run(self, options: Options) -> Iterable[Case]:
        """Measure."""
        return [self.measure(self.name, options)]


class Benchmark(Protocol):
    """A benchmark that the command line can name."""

    @property
    def name(self) -> str:
        """As the command line names it."""

    def run(self, options: Options) -> Iterable[Case]:
        """Measure; each result has the benchmark's name, or a name that starts with it."""


CASES: Final[Mapping[str, Benchmark]] = {
    case.name: case
    for case in (
        Upsert("upsert-11-columns", ORDERS, "parquet", "files"),
        Upsert("upsert-11-columns-avro", ORDERS, "avro", "files"),
        Upsert("upsert-11-columns-1024-buckets", ORDERS, "parquet", "files", buckets=1024),
        Upsert("upsert-1-string-10-bigint", NUMBERS, "parquet", "files"),
        Upsert("upsert-20-string", TEXTS, "parquet", "files"),
        Upsert("kafka-json", ORDERS, "parquet", "json"),
        Upsert("kafka-avro", ORDERS, "parquet", "avro"),
        Upsert("kafka-protobuf", ORDERS, "parquet", "protobuf"),
        Ceiling(),
        One("memory", memory_case),
        One("commit-rows", commit_rows_case),
        Several("commit-file-groups", commit_file_groups_cases),
        One("restart", restart_case),
        One("freshness", freshness_case),
        One("instant-files", instant_files_case),
        Several("scaling", scaling_cases),
        Several("compaction", partial(compaction_cases, peer=HUDI)),
        Several("compaction-memory", compaction_memory_cases),
        Several("state", state_cases),
        Several("state-upsert", partial(state_upsert_cases, peer=HUDI)),
        Several("state-record", partial(state_record_cases, peer=HUDI)),
        Several("state-buckets", state_buckets_cases),
        Several("state-global", partial(state_global_cases, peer=HUDI)),
        Several("state-restart", state_restart_cases),
        Several("services-scale", services_scale_cases),
        Several("services-flat", services_flat_cases),
        Several("services-day", services_day_cases),
        Several("services-tidy", partial(services_tidy_cases, peer=HUDI)),
        Several("services-beside", services_beside_cases),
        Several("services-lock", services_lock_cases),
    )
}


def _case(name: str, what: str, options: Options, pair: Pair, *, peer: str, ran: Mapping[str, str]) -> Case:
    return pair.case(name, what, rows=options.rows, peer=peer, ran=ran)
