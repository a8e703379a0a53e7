"""One table that Hudi's Spark writer and ours write in turns, the rows that it must have, and the check of every key.

Ours has an index with a state; Hudi's uses its SIMPLE or its BLOOM index. Between the writes come the table services
of both, restarts, and a state that is lost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

import pyarrow as pa

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import InsertMode, StateRules, TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.store import forget_state
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.handover import hand_over, log_only_groups
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, Key
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter
from support.tables.services.clustered import cluster, planned
from support.tables.services.compactions import compact, holder
from turns import rows

_SMALL: Final = {
    "hoodie.parquet.small.file.limit": str(100 * 1024**2),
    "hoodie.simple.index.parallelism": "2",
    "hoodie.bloom.index.parallelism": "2",
    "hoodie.finalize.write.parallelism": "2",
    "hoodie.markers.delete.parallelism": "2",
    "hoodie.cleaner.parallelism": "2",
    "hoodie.archive.delete.parallelism": "2",
}
"""It enlarges small base files. Of a hundred tasks of a stage, as by default, most would have nothing to do."""
_COMPACT: Final = {"hoodie.compact.inline": "true"}
_CLEAN: Final = _COMPACT | {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
_CLUSTER: Final = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
_ARCHIVE: Final = _CLEAN | {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}


class Step(StrEnum):
    """What may happen to the table, by one of the writers or between them."""

    OURS = "our commit"
    SIMPLE = "Hudi's upsert, SIMPLE"
    BLOOM = "Hudi's upsert, BLOOM"
    DELETE = "Hudi's delete"
    HUDI_COMPACTS = "Hudi's upsert and compaction"
    HUDI_CLEANS = "Hudi's upsert, compaction, clean"
    HUDI_ARCHIVES = "Hudi's upsert, compaction, clean, archival"
    HUDI_CLUSTERS = "Hudi's upsert and clustering"
    HUDI_DELETES_PARTITION = "Hudi's deletion of a partition"
    COMPACT = "our compaction"
    CLEAN = "our clean"
    ARCHIVE = "our archival"
    MERGE = "our clustering"
    RESTART = "restart of ours"
    FORGET = "restart of ours, the state lost"
    BASE = "restart of ours with inserts: base"
    LOG = "restart of ours with inserts: log"


def hudis_writer(index: str, services: Mapping[str, str] | None = None) -> HudiWriter:
    """Hudi's, with an index of its own."""
    return HudiWriter(
        name="shared",
        record_key=["id"],
        partition_by=["region"],
        ordering="at",
        extra={**_SMALL, **(services or {})},
        everywhere={"hoodie.index.type": index},
    )


def definition(inserts: InsertMode) -> TableDefinition:
    """Ours."""
    return TableDefinition("shared", ("id",), ("region",), "at", state=StateRules(inserts=inserts))


def check_table(path: Path, expected: ExpectedTable, hudi: HudiOracle | None) -> None:
    """Every reader, hudi-rs and if given Hudi, shows each key once, as expected; no key is in two file groups."""
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), rows.RULES.identity)
    if hudi is not None:
        assert_same_rows(hudi.snapshot(path), expected.table(), rows.RULES.identity)
    storage, groups = open_storage(str(path)), Counter[tuple[str, str]]()
    timeline = Timeline.load(storage)
    replaced = replaced_file_groups(storage, timeline)
    for group in load_file_view(storage, timeline).groups:
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced:
            keys = {key for array in keys_of_rows(storage, group.latest) for key in array.to_pylist()}
            groups.update((group.partition_path, key) for key in keys)
    assert set(groups.values()) <= {1}, [key for key, count in groups.items() if count > 1]
    assert expected.live() <= groups.keys()


@dataclass
class SharedTable:
    """The table, our running attempt, and what readers must show. `take` the steps in order, `check` after each."""

    path: Path
    seed: str
    hudi: HudiOracle
    inserts: InsertMode = "base"
    number: int = 0
    """Of the last step."""
    expected: ExpectedTable = field(default_factory=lambda: ExpectedTable(rows.RULES))
    unsure: set[Key] = field(default_factory=set)
    """Deleted keys of which the table may not know when: a handover compacts some file groups only, we forget the
    delete of a key that the table did not have, and Hudi's delete has no ordering value.
    """
    has_log_keys: bool = False
    """Whether keys may be in log files only."""
    counts: Counter[str] = field(default_factory=Counter)
    writer: LocalWriter = field(init=False)

    def __post_init__(self) -> None:
        self._start(self._chance("start"))

    @property
    def storage(self) -> Storage:
        """The table's."""
        return open_storage(str(self.path))

    def take(self, step: Step) -> None:
        """The next step."""
        self.number += 1
        self.counts[step] += 1
        chance = self._chance(step)
        if step is Step.OURS:
            self._ours(chance)
        elif step in BETWEEN:
            BETWEEN[step](self, chance)
        else:
            self._hudis(step, chance)

    def check(self, *, spark: bool = True) -> None:
        """As `check_table`; with `inserts: base` each key is in a base file. Without `spark` only hudi-rs reads."""
        check_table(self.path, self.expected, self.hudi if spark else None)
        assert self.has_log_keys or not log_only_groups(self.storage)

    def _chance(self, what: str) -> random.Random:
        return random.Random(f"{self.seed} {self.number} {what}")

    def _start(self, chance: random.Random) -> None:
        tasks = (chance.randint(1, 3), chance.randint(1, 3))
        self.writer = LocalWriter(
            self.path, definition(self.inserts), rows.SCHEMA, deleted="gone", map_tasks=tasks[0], write_tasks=tasks[1]
        )

    def _ours(self, chance: random.Random) -> None:
        batch = rows.ours(chance, self.number, self.expected, self.unsure)
        known = self.expected.live() | self.expected.deleted()
        self.writer.commit(batch)
        self._applied(batch)
        self.unsure |= self.expected.deleted() - known
        self.has_log_keys |= self.inserts == "log"

    def _hudis(self, step: Step, chance: random.Random) -> None:
        self._hand_over()
        index = step.name if step in (Step.SIMPLE, Step.BLOOM) else chance.choice(("SIMPLE", "BLOOM"))
        services = _SERVICES.get(step, {})
        if step is Step.HUDI_DELETES_PARTITION:
            self._delete_partition(chance, hudis_writer(index))
            return
        if step is Step.DELETE:
            batch = rows.deleted(chance, self.number, self.expected)
            if batch.num_rows:
                self.hudi.delete(self.path, batch, hudis_writer(index))
        else:
            batch = rows.hudis(chance, self.number, self.expected, self.unsure)
            self.hudi.upsert(self.path, batch, hudis_writer(index, services))
        known = self.expected.deleted()
        self._applied(batch)
        if step in _COMPACTS:
            self._compacted()
        elif step is Step.HUDI_CLUSTERS:
            self.unsure |= self.expected.deleted()
        elif step is Step.DELETE:
            self.unsure |= self.expected.deleted() - known

    def _delete_partition(self, chance: random.Random, writer: HudiWriter) -> None:
        regions = sorted({region for region, _ in self.expected.live()})
        if len(regions) > 1:
            region = chance.choice(regions)
            self.hudi.delete_partition(self.path, rows.hudis(chance, 0, self.expected, ()), region, writer)
            self.expected.drop((region,))
            self.unsure -= {key for key in self.unsure if key[0] == region}

    def _applied(self, batch: pa.Table) -> None:
        self.expected.apply(batch)
        self.unsure -= self.expected.live()

    def _hand_over(self) -> None:
        if self.has_log_keys:
            ended = hand_over(self.storage, holder(self.storage), utc_now)
            self.counts["compactions of handovers"] += len(ended)
            self.unsure |= self.expected.deleted()
            self.has_log_keys = False

    def _compact(self, _: random.Random) -> None:
        assert set(compact(self.storage)) <= {End.COMPLETED}
        self._compacted()

    def _compacted(self) -> None:
        self.expected.compact()
        self.unsure.clear()

    def _clean(self, _: random.Random) -> None:
        cleaned = clean(Guarded(self.storage), Retention(versions=1))
        self.counts["files that we cleaned"] += sum(result.files for result in cleaned.results)

    def _archive(self, chance: random.Random) -> None:
        self._compact(
            chance
        )  # hudi-rs does not read the history: a file group without a base file would lose log files
        results = archive_old(Guarded(self.storage), ArchiveRules(keep_min=4, min_age=timedelta(0)))
        self.counts["instants that we archived"] += sum(len(result.instants) for result in results)

    def _merge(self, _: random.Random) -> None:
        while planned(self.storage) is not None and self.counts["clusterings"] < 10 * self.number:
            assert cluster(self.storage).end is End.COMPLETED
            self.counts["clusterings"] += 1
        self.unsure |= self.expected.deleted()

    def _restart(self, chance: random.Random) -> None:
        self._start(chance)

    def _forget(self, chance: random.Random) -> None:
        forget_state(self.storage)
        self._start(chance)

    def _to_base(self, chance: random.Random) -> None:
        self._hand_over()
        self.inserts = "base"
        self._start(chance)

    def _to_log(self, chance: random.Random) -> None:
        self.inserts = "log"
        self._start(chance)


_SERVICES: Final[Mapping[Step, Mapping[str, str]]] = {
    Step.HUDI_COMPACTS: _COMPACT,
    Step.HUDI_CLEANS: _CLEAN,
    Step.HUDI_ARCHIVES: _ARCHIVE,
    Step.HUDI_CLUSTERS: _CLUSTER,
}
_COMPACTS: Final = (Step.HUDI_COMPACTS, Step.HUDI_CLEANS, Step.HUDI_ARCHIVES)
BETWEEN: Final[Mapping[Step, Callable[[SharedTable, random.Random], None]]] = {
    Step.COMPACT: SharedTable._compact,
    Step.CLEAN: SharedTable._clean,
    Step.ARCHIVE: SharedTable._archive,
    Step.MERGE: SharedTable._merge,
    Step.RESTART: SharedTable._restart,
    Step.FORGET: SharedTable._forget,
    Step.BASE: SharedTable._to_base,
    Step.LOG: SharedTable._to_log,
}
