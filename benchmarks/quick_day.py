"""Whether a day of five commits a second makes the next commit dearer: its requests, the names that it lists, its
processor time, and the objects that are left.

The clock is simulated and storage is a dictionary; commits and table services are the job's own. Run it with
PYTHONPATH=tests:benchmarks:tools from the project's folder. `--shorter 10` divides by ten the day, and the times for
which journals keep what has ended: all that could grow over the day goes as often as in a whole one. Table services run
as often as they do, so the timeline is as long as it is.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import pkgutil
import statistics
import sys
import time
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import bucketingest
from bucketingest.hudi.naming import HISTORY_DIRECTORY, TIMELINE_DIRECTORY
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.schedule import LOOK_EVERY, TIDY_AFTER
from support.storage.counted_memory import CountedMemory
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

INTERVAL = timedelta(seconds=0.2)
DAY = timedelta(days=1) // INTERVAL
LOOK_EVERY_COMMITS = LOOK_EVERY // INTERVAL
TIDY_EVERY_COMMITS = -(-TIDY_AFTER // LOOK_EVERY_COMMITS) * LOOK_EVERY_COMMITS
"""Looks find out that so many commits came."""
WINDOWS = 24
GROWTH_MAX = 0.03
"""Of a figure from the first window of the second half to the last one, by a straight line through them."""
RECORDS = ("/services/", "/audited/")
"""What is left for 24 hours of each compaction and clean, of which there is one a minute: flat after a day only."""
PLACES = {"timeline": f"{TIMELINE_DIRECTORY}/", "archive": f"{HISTORY_DIRECTORY}/", "journal": "/instants/"}
"""Of the objects that are left, those in the active timeline and its archive, and those of the job's journal."""


class Day:
    """One attempt that commits, and its table services, by one clock."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.table = TestTable()
        self.storage = self.table.storage = CountedMemory(lambda: self.now)
        self.attempt = self.table.attempt(clock=lambda: self.now)
        self.commits = 0

    def commit(self) -> None:
        """The next one."""
        self.now += INTERVAL
        at = self.commits
        self.attempt.run(offsets(at, at + 1), [row(f"k{at % 5}", at=at)])
        self.commits += 1

    def serve(self) -> None:
        """The services that are due then."""
        if self.commits % LOOK_EVERY_COMMITS == 0:
            compact_now(self.storage, self._holder(), CompactionTriggers(), lambda: self.now)
        if self.commits % TIDY_EVERY_COMMITS == 0:
            self._holder().sweep_old()
            guarded = Guarded(self.storage, nullcontext, lambda: None, lambda: self.now)
            clean(guarded, Retention(versions=2))
            archive_old(guarded, ArchiveRules(min_age=timedelta(minutes=1)))

    def _holder(self) -> CompactionHolder:
        return CompactionHolder(self.storage, nullcontext, lambda: None, clock=lambda: self.now)


def main() -> None:
    """Print a line for each window, then what grew. Exit code 1 if a figure of a commit did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shorter", type=int, default=10, help="1: the real times, 432,000 commits")
    parser.add_argument("--commits", type=int, help="only so many")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    _shorten(given.shorter)
    day, commits = Day(), given.commits or DAY // given.shorter
    window = max(1, commits // WINDOWS // TIDY_EVERY_COMMITS) * TIDY_EVERY_COMMITS
    figures: dict[str, list[float]] = {}
    for _ in range(commits // window):
        for name, figure in _window(day, window).items():
            figures.setdefault(name, []).append(figure)
        said = ", ".join(f"{name} {each[-1]:.1f}" for name, each in figures.items())
        print(f"{day.commits:,} commits: {said}", flush=True)
    grown = {name: _growth(each[len(each) // 2 :]) for name, each in figures.items()}
    print("in the second half: " + ", ".join(f"{name} {each:+.1%}" for name, each in grown.items()))
    sys.exit(any(each > GROWTH_MAX for name, each in grown.items() if name not in {"ms", "records"}))


def _window(day: Day, commits: int) -> dict[str, float]:
    """Of a commit, without services, which are in no commit's way. `pages`: requests that list, of 1,000 names each."""
    counts: Counter[str] = Counter()
    spent = 0.0
    for _ in range(commits):
        before, began = Counter(day.storage.counts), time.process_time()
        day.commit()
        spent += time.process_time() - began
        counts += Counter(day.storage.counts) - before
        day.serve()
    paths = [each.path for each in day.storage.list()]
    records = sum(any(map(path.__contains__, RECORDS)) for path in paths)
    each_commit = {name: counts[name] / commits for name in ("requests", "pages", "names")}
    left = {name: sum(place in path for path in paths) for name, place in PLACES.items()}
    left["timeline"] -= left["archive"]
    objects = {"objects": len(paths) - records, **left, "records": records}
    return {**each_commit, "ms": spent / commits * 1000, **objects}


def _growth(figures: list[float]) -> float:
    line = statistics.linear_regression(range(len(figures)), figures)
    return line.slope * (len(figures) - 1) / (line.intercept or 1.0)


def _shorten(times: int) -> None:
    """Everywhere: how long the journals, and superseded files of the history, stay."""
    for found in pkgutil.walk_packages(bucketingest.__path__, "bucketingest."):
        if ".stream" not in found.name and ".cli" not in found.name:
            module = importlib.import_module(found.name)
            if isinstance(kept := getattr(module, "KEPT_FOR", None), timedelta):
                setattr(module, "KEPT_FOR", kept / times)  # noqa: B010 - a constant of many modules


if __name__ == "__main__":
    main()
