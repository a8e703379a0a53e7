"""A table over days of commits, made fast by a clock of its own, with its services at their usual times."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bucketingest.hudi.naming import OWN_DIRECTORY, TIMELINE_DIRECTORY
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage
from support.storage.dated_storage import DatedStorage
from support.tables.table_runs import Attempt, TestTable, offsets
from support.tables.write_plans import row


@dataclass
class AgedTable:
    """One attempt of a pipeline that commits again and again, and its table services."""

    inner: Storage
    now: datetime
    commit_every: timedelta = timedelta(seconds=30)
    look_every: timedelta = timedelta(minutes=10)
    tidy_every: timedelta = timedelta(minutes=30)
    retain: timedelta = timedelta(hours=24)
    triggers: CompactionTriggers = field(default_factory=CompactionTriggers)
    keys: int = 40
    """Of the rows: each commit writes all."""
    commits: int = 0
    table: TestTable = field(init=False)
    attempt: Attempt = field(init=False)

    began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.now
        self.table = TestTable()
        self.table.storage = DatedStorage(self.inner, lambda: self.now)
        self.attempt = self.table.attempt(clock=lambda: self.now)
        self._next_look, self._next_tidy = self.now + self.look_every, self.now + self.tidy_every

    def run(self, commits: int) -> None:
        """So many commits, and the services that become due between them."""
        for _ in range(commits):
            self.now += self.commit_every
            rows = [row(f"k{key}", region=("eu", "us")[key % 2], at=self.commits) for key in range(self.keys)]
            block = self.attempt.opened.log_block
            self.attempt.run(offsets(self.commits, self.commits + 1), rows, log_block=block)
            self.commits += 1
            if self.now >= self._next_look:
                self._next_look += self.look_every
                self.compact(self.triggers)
            if self.now >= self._next_tidy:
                self._next_tidy += self.tidy_every
                self.tidy()

    def compact(self, triggers: CompactionTriggers) -> None:
        """One look, and the compaction that is due."""
        compact_now(self.table.storage, self._holder(), triggers, lambda: self.now)

    def tidy(self) -> None:
        """What the job does each half hour."""
        self._holder().sweep_old()
        table = Guarded(self.table.storage, nullcontext, lambda: None, lambda: self.now)
        clean(table, Retention(retain=self.retain))
        archive_old(table)

    def objects(self) -> dict[str, int]:
        """How many objects the table has: on the timeline, of our own, in the archived history, and of data."""
        paths = [info.path for info in self.inner.list()]
        places = {"timeline": f"{TIMELINE_DIRECTORY}/", "own": f"{OWN_DIRECTORY}/", "history": _HISTORY}
        counts = {name: sum(path.startswith(place) for path in paths) for name, place in places.items()}
        counts["timeline"] -= counts["history"]
        return counts | {"data": sum(not path.startswith(".hoodie/") for path in paths)}

    def _holder(self) -> CompactionHolder:
        return CompactionHolder(self.table.storage, nullcontext, lambda: None, clock=lambda: self.now)


_HISTORY = f"{TIMELINE_DIRECTORY}/history/"
