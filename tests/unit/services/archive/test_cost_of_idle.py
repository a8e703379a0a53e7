"""What archivals cost where a pipeline was renamed: as much on the ninth day as on the third."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.storage import open_storage
from support.storage.passing_storage import PassingStorage
from support.tables.services.aged_table import AgedTable
from support.tables.table_runs import offsets
from support.tables.write_plans import row

DAY = timedelta(days=1)


class Counting(PassingStorage):
    """Counts the history files that are read."""

    read = 0

    def get(self, path: str) -> bytes:
        self.read += path.startswith(f"{HISTORY_DIRECTORY}/") and path.endswith(".parquet")
        return super().get(path)

    def _before_read(self) -> None:
        """Nothing is to be done."""

    def _change(self, path: str, act: Callable[[], None]) -> None:
        act()


def test_it_does_not_grow_with_the_history() -> None:
    storage = Counting(open_storage("memory://idle"))
    often = CompactionTriggers(log_files=1, log_age=timedelta(0))
    aged = AgedTable(storage, utc_now() - 12 * DAY, DAY / 8, DAY / 4, DAY / 4, triggers=often, keys=2)
    aged.table.attempt(pipeline="shop/old", clock=lambda: aged.now).run(offsets(0, 1), [row("old")])
    read = []
    for _ in range(9):
        before = storage.read
        aged.run(8)
        read.append(storage.read - before)
    assert max(read[-3:]) < 2 * max(read[2:5])
