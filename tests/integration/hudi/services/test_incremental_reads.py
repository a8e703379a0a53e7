"""Incremental reads, of commits around our compactions, clusterings and cleans: each gives the rows that the
table had at its end, of the keys that changed since its beginning, whenever it runs. If a clean has deleted a file that
a commit of the range wrote, Spark's reader takes the table as it is now, unless it is told to fail instead.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.execute import ClusteringExecutor
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import Work
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.environment import OracleError
from support.oracle.readers import BEGINNING
from support.tables.local_writer import LocalWriter
from support.tables.services.clustered import clustering_holder, planned
from support.tables.services.compactions import execute, holder

SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string()), ("gone", pa.bool_())]
)
SMALL: Final = ClusteringTriggers(10 * 1024**2, min_groups=2)
COMMITS: Final = int(os.environ.get("COMMITS", "14"))
"""91 pairs; of 26 commits 325."""
SPARK_RANGES: Final = int(os.environ.get("SPARK_RANGES", "2"))
"""Ranges of each table that Spark reads, too, each in two ways; a read takes about a second."""
TABLES: Final = {
    "buckets": TableDefinition("read", ("id",), ("region",), "at", buckets=2),
    "state": TableDefinition("read", ("id",), ("region",), "at", state=StateRules()),
    "state, new keys in logs": TableDefinition("read", ("id",), ("region",), "at", state=StateRules(inserts="log")),
}
Read = Callable[[Path, str, str], pa.Table]
Rows = dict[str, int]
"""Number of the commit that wrote a key last."""


@pytest.fixture(autouse=True)
def local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@dataclass
class History:
    """A table with commits, and services that begin while instants are open and end much later."""

    path: Path
    definition: TableDefinition
    rng: random.Random
    commits: list[str] = field(default_factory=lambda: [BEGINNING])
    """Completion times."""
    versions: list[dict[str, int | None]] = field(default_factory=lambda: [{}])
    """After each commit: number of the commit that wrote or deleted a key last; deleted: negative."""
    ends: dict[str, int] = field(default_factory=dict)
    """How many services ended, by kind."""
    cleaned: int = 0
    """The first commit after the clean: reads that end before may miss files."""

    def __post_init__(self) -> None:
        self.storage = open_storage(str(self.path))
        self.writer = LocalWriter(self.path, self.definition, SCHEMA, "gone", commit_interval=timedelta(hours=1))
        self.compactions, self.merges = holder(self.storage), clustering_holder(self.storage)
        self.work: Work | None = None
        self.merge: int | None = None

    def live(self) -> None:
        number = 0
        while number < COMMITS - 1 or (self.lacks_merge and number < 3 * COMMITS):
            number += 1
            version = dict(self.versions[-1])
            for _ in range(self.rng.choice((1, 1, 2))):
                self._write(number, version)
                self._serve()
            self._serve()
            if self.writer.coordinator.inflight is not None:
                self.writer.coordinator.commit_open()
            newest = max(each.completion_time or "" for each in Timeline.load(self.storage).completed_commits)
            self.commits.append(newest)
            self.versions.append(version)
            self._commit_merge()
            self._serve()
            if number == COMMITS // 3:
                self._clean()

    @property
    def lacks_merge(self) -> bool:
        """Whether none has completed yet. How many are void depends on file ids, and they are new each time."""
        return self.definition.state is not None and not self.ends.get("merge completed")

    def _write(self, number: int, version: dict[str, int | None]) -> None:
        keys = self.rng.sample(range(40), self.rng.randint(2, 8))
        gone = [self.rng.random() < 0.2 for _ in keys]
        columns = {
            "id": [f"k{key}" for key in keys],
            "region": [("eu", "us")[key % 2] for key in keys],
            "at": [number] * len(keys),
            "value": [str(number)] * len(keys),
            "gone": gone,
        }
        self.writer.commit(pa.table(columns, schema=SCHEMA))
        version.update({f"k{key}": -number if deleted else number for key, deleted in zip(keys, gone, strict=True)})

    def _serve(self) -> None:
        """The next step of one service."""
        if self.rng.random() < 0.4:
            return
        if self.work is not None:
            execute(self.storage, self.work)
            self.work = None
        state = self.compactions.advance()
        if isinstance(state, Work):
            self.work = state
        elif state is not None:
            self._note(f"compaction {state.end}")
        elif self.merge is None and self.definition.state is not None and self.rng.random() < 0.5:
            if (plan := planned(self.storage, SMALL)) is not None:
                self.merge = self.merges.begin(plan)
                ClusteringExecutor(self.storage, self.merge).run()
        elif self.merge is None:
            triggers = CompactionTriggers(log_files=self.rng.choice((1, 3)))
            if (proposal := propose(self.storage, triggers, utc_now()).proposal) is not None:
                self.compactions.request(proposal)

    def _clean(self) -> None:
        guarded = Guarded(self.storage, nullcontext, lambda: None)
        self._note("cleaned", sum(each.files for each in clean(guarded, Retention(retain=timedelta())).results))
        self.cleaned = len(self.commits)

    def _commit_merge(self) -> None:
        if self.merge is not None and self.rng.random() < 0.7:
            self._note(f"merge {self.merges.commit(self.merge).end}")
            self.merge = None

    def _note(self, what: str, count: int = 1) -> None:
        self.ends[what] = self.ends.get(what, 0) + count

    def ranges(self) -> Iterator[tuple[int, int]]:
        return (each for each in combinations(range(len(self.commits)), 2) if each[1] >= self.cleaned)

    def expected(self, begin: int, end: int) -> Rows:
        before, after = self.versions[begin], self.versions[end]
        changed = {key: number for key, number in after.items() if before.get(key) != number}
        return {key: number for key, number in changed.items() if number is not None and number > 0}

    def now(self, begin: int, end: int) -> Rows:
        """The rows of the table as it is now that these commits wrote."""
        return {
            key: number for key, number in self.versions[-1].items() if number is not None and begin < number <= end
        }

    def is_cleaned(self, begin: int, end: int) -> bool:
        """Whether a file is gone that a commit of this range wrote."""
        first, last = self.commits[begin], self.commits[end]
        commits = Timeline.load(self.storage).completed_commits
        paths = [path_of(each) for each in commits if first < (each.completion_time or "") <= last]
        stored = [file for path in paths for file in CommitMetadata.decode_files(self.storage.get(path), path)]
        return not all(self.storage.exists(join(file.partition_path, file.name)) for file in stored)

    def spark_shows(self, begin: int, end: int) -> Rows:
        return (self.now if self.is_cleaned(begin, end) else self.expected)(begin, end)

    def wrong(self, read: Read, ranges: list[tuple[int, int]], expected: Callable[[int, int], Rows]) -> list[str]:
        """Those reads that give other rows, in words."""
        found = []
        for begin, end in ranges:
            rows, right = read(self.path, self.commits[begin], self.commits[end]), sorted(expected(begin, end).items())
            pairs = sorted(zip(rows["id"].to_pylist(), map(int, rows["value"].to_pylist()), strict=True))
            if pairs != right:
                found.append(f"({begin}, {end}]: {pairs} instead of {right}")
        return found


@pytest.mark.hudi
@pytest.mark.parametrize("table", TABLES)
def test_an_incremental_read_gives_the_difference_of_two_snapshots(
    hudi: HudiOracle, tmp_path: Path, table: str
) -> None:
    rng = random.Random(table)
    its = History(tmp_path / "table", TABLES[table], rng)
    its.live()
    assert its.ends["compaction completed"] > 2
    assert its.ends["cleaned"] > 0
    assert not its.lacks_merge
    ranges = list(its.ranges())
    assert its.wrong(hudi_rs.incremental, ranges, its.expected) == []
    chosen = rng.sample(ranges, min(SPARK_RANGES, len(ranges)))
    assert its.wrong(hudi.incremental, chosen, its.spark_shows) == []
    assert its.wrong(partial(hudi.incremental, falls_back=False), chosen, its.expected) == []
    newest = len(its.commits) - 1
    lost = next(end for end in range(1, newest) if its.is_cleaned(0, end))
    with pytest.raises(OracleError, match="FileNotFoundException"):
        hudi.incremental(its.path, its.commits[0], its.commits[lost], falls_back=False)
    assert all(its.now(begin, newest) == its.expected(begin, newest) for begin in range(newest)), "no row is missed"
