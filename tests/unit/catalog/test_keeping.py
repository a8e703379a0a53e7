"""The catalogs of many tables: each has a thread, which looks at the tables in turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bucketingest.catalog.keeper import worst_of
from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.spec.job_report import CatalogReport

NOW = datetime(2026, 11, 29, tzinfo=UTC)
_WAIT_SECONDS = 30.0


@dataclass
class Keeper:
    """Of one table in one catalog; it is due until it has looked."""

    hangs: threading.Event | None = None
    looks: int = 0
    shown: int = 0
    looked: threading.Event = field(default_factory=threading.Event)

    @property
    def is_due(self) -> bool:
        return self.looks == 0

    def show(self) -> None:
        self.shown += 1

    def step(self) -> None:
        if self.hangs is not None:
            assert self.hangs.wait(_WAIT_SECONDS)
        self.looks += 1
        self.looked.set()


@contextmanager
def running(count: int) -> Iterator[CatalogThreads]:
    catalogs = CatalogThreads(count)
    catalogs.start()
    try:
        yield catalogs
    finally:
        catalogs.stop(_WAIT_SECONDS)


def add(catalogs: CatalogThreads, topic: str, *keepers: Keeper) -> None:
    given: Any = keepers
    catalogs.add(topic, given)


def test_a_catalog_that_hangs_keeps_no_other_back_and_a_last_look_is_taken_at_the_end() -> None:
    free = threading.Event()
    tables = [(Keeper(hangs=free), Keeper()) for _ in range(3)]
    with running(2) as catalogs:
        for number, keepers in enumerate(tables):
            add(catalogs, f"t{number}", *keepers)
        assert all(answers.looked.wait(_WAIT_SECONDS) for _, answers in tables)
        assert [silent.looks for silent, _ in tables] == [0, 0, 0]
        free.set()
        assert all(silent.looked.wait(_WAIT_SECONDS) for silent, _ in tables)
    assert [(keeper.shown, keeper.looks) for keepers in tables for keeper in keepers] == [(1, 2)] * 6


def test_a_table_that_is_forgotten_is_looked_at_no_more() -> None:
    gone, stays = Keeper(), Keeper()
    with running(1) as catalogs:
        add(catalogs, "gone", gone)
        add(catalogs, "stays", stays)
        assert gone.looked.wait(_WAIT_SECONDS)
        assert stays.looked.wait(_WAIT_SECONDS)
        catalogs.forget("gone")
    assert (gone.looks, stays.looks) == (1, 2)


def test_the_report_has_for_each_catalog_the_table_in_most_need() -> None:
    def state(label: str, minutes: int | None, failures: int = 0, problem: str | None = None) -> CatalogReport:
        since = None if minutes is None else NOW - timedelta(minutes=minutes)
        return CatalogReport(catalog=label, behind_since=since, failures=failures, problem=problem)

    tables = [
        (state("hive a", None), state("glue a", 9)),
        (state("hive b", 5, 1, "closed"), state("glue b", 3)),
        (),  # it is not open yet
        (state("hive c", 8, 2), state("glue c", None)),
    ]
    assert worst_of(tables) == (state("hive b", 5, 3, "closed"), state("glue a", 9))
    assert worst_of([(), ()]) == ()
