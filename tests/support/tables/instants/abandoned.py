"""What failed attempts leave on a table, and the rollback command's work there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.timeline.instant import ROLLBACK, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested, path_of
from bucketingest.storage.interface import Storage
from bucketingest.write.recovery.command import InstantOutcome, RollbackExecutor
from bucketingest.write.recovery.decide import choose
from bucketingest.write.recovery.survey import survey
from support.storage.flaky_storage import FlakyStorage
from support.tables.table_runs import Attempt, Rows, TestTable, offsets
from support.tables.write_plans import row

NEVER = 10**9
FIRST = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n) for n in range(6)]
SECOND = [row(f"k{n}", amount=n) for n in range(6, 9)]
ALL_KEYS = [f"k{n}" for n in range(9)]
LONG_AFTER = timedelta(minutes=10)


class Killed(Exception):
    """The driver is gone in the middle of a micro-batch."""


def die() -> None:
    raise Killed


def leave_open(table: TestTable, start: int = 0, rows: Rows = tuple(FIRST)) -> Attempt:
    """An attempt that dies when its tasks have written and nothing is in the ledger yet."""
    attempt = table.attempt()
    with pytest.raises(Killed):
        attempt.run(offsets(start, start + len(rows)), rows, die)
    return attempt


def leave_decided(table: TestTable) -> None:
    """An attempt that dies between the decision to commit and the completed file."""
    storage = FlakyStorage(table.storage, lambda path: path.endswith(".deltacommit") and "/timeline/" in path)
    with pytest.raises(BucketIngestError):
        table.attempt(storage).run(offsets(0, 6), FIRST)


def roll_back_table(
    table: TestTable, *wanted: str, storage: Storage | None = None, force: bool = False, after: timedelta = LONG_AFTER
) -> list[InstantOutcome]:
    """What the command does, `after` so long."""
    through = storage or table.storage
    found = survey(through, wanted, datetime.now(UTC) + after)
    return list(RollbackExecutor(through).carry_out(choose(found.instants, found.wanted, force=force)))


def open_instant(table: TestTable) -> str:
    (instant,) = (each for each in table.timeline().pending if each.action != ROLLBACK)
    return instant.request_time


def go_on(table: TestTable) -> None:
    """The next attempt ingests everything; then all is there once and nothing else."""
    table.attempt().go_on((offsets(0, 6), FIRST), (offsets(6, 9), SECOND))
    assert table.visible_keys() == ALL_KEYS
    assert table.leftovers() == []


def plan_of(table: TestTable, instant: str, files: tuple[RollbackFile, ...] = (), action: str = "deltacommit") -> str:
    """A rollback that another writer requested and left; returns its time."""
    newest = table.timeline().newest_time or format_time(datetime.now(UTC))
    time = format_time(parse_time(newest) + timedelta(milliseconds=5))
    plan = RollbackPlan(instant, action, files)
    create_requested(table.storage, time, ROLLBACK, plan.encode(table.storage.absolute))
    return time


def pending_rollback_with_everything_there(table: TestTable) -> str:
    instant = open_instant(table)
    return plan_of(table, instant)


def two_pending_rollbacks(table: TestTable) -> str:
    instant = open_instant(table)
    first = plan_of(table, instant)
    plan_of(table, instant)
    return first


def instant_gone_and_rollback_not_completed(table: TestTable) -> str:
    instant = open_instant(table)
    time = plan_of(table, instant)
    create_inflight(table.storage, time, ROLLBACK)
    for state in (State.INFLIGHT, State.REQUESTED):
        table.storage.delete(path_of(Instant(instant, "deltacommit", state)))
    return time
