"""From which instant on a table retains everything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.services.clean.choose import Limit, earliest_to_retain
from support.tables.services.named_slices import NOW, NamedTable, ago


def limit(table: NamedTable, retain: float = 60, last: str = "") -> Limit:
    return earliest_to_retain(table.timeline(), NOW, timedelta(minutes=retain), table.modified, last)


def time(table: NamedTable, retain: float = 60) -> str | None:
    instant = limit(table, retain).instant
    return None if instant is None else instant.request_time


def writes(*minutes: float) -> NamedTable:
    table = NamedTable()
    for each in minutes:
        table.write(each)
    return table


@pytest.mark.parametrize(
    ("minutes", "earliest"),
    [((90, 60, 30), 60), ((90, 61, 30), 30), ((90, 70), 70), ((10,), 10)],
)
def test_it_is_the_first_write_within_the_time_or_the_newest_one(minutes: tuple[float, ...], earliest: float) -> None:
    assert time(writes(*minutes)) == ago(earliest)


def test_a_table_without_writes_has_none() -> None:
    assert limit(NamedTable()) == Limit(None, "no write has completed")


@pytest.mark.parametrize(("done", "put", "earliest"), [(70, None, 10), (50, None, 300), (299, 50, 300), (299, 70, 10)])
def test_a_compaction_counts_from_when_readers_see_it(done: float, put: float | None, earliest: float) -> None:
    """Its request, its completion time and its completed file may lie hours apart."""
    table = writes(400)
    table.compact(300, done=done, put=put)
    table.write(10)
    assert time(table) == ago(earliest)


def test_so_does_a_replacecommit_but_not_a_write() -> None:
    table = writes(400)
    table.write(350, done=50)
    table.write(10)
    assert time(table) == ago(10)
    table.replace(300, done=50)
    assert time(table) == ago(300)


@pytest.mark.parametrize("action", ["deltacommit", "compaction", "logcompaction", "clustering", "replacecommit"])
@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_it_is_before_what_is_pending(action: str, state: str) -> None:
    table = writes(90, 80, 30)
    table.names.append(f"{ago(70)}.{action}.{state}")
    assert time(table) == ago(80)
    assert limit(table).why == f"{action} {ago(70)} is pending"


def test_nothing_goes_if_the_oldest_write_is_pending() -> None:
    table = writes(90, 30)
    table.names.append(f"{ago(100)}.deltacommit.inflight")
    assert limit(table) == Limit(None, f"deltacommit {ago(100)} is pending", ago(100))


def test_a_pending_savepoint_keeps_its_moment() -> None:
    table = writes(90, 80, 30)
    table.names.append(f"{ago(80)}.savepoint.inflight")
    assert time(table) == ago(80)


@pytest.mark.parametrize("action", ["clean.inflight", "rollback.requested", "savepoint.done"])
def test_others_do_not_count(action: str) -> None:
    table = writes(90, 30)
    table.names.append(f"{ago(80)}.{action}" if "done" not in action else f"{ago(80)}_{ago(79)}.savepoint")
    assert time(table) == ago(30)


def test_it_never_goes_back() -> None:
    """Hudi's next clean looks only at what was written since the last one's earliest instant."""
    table = writes(90, 30)
    assert limit(table, last=ago(30)).instant is not None
    assert limit(table, last=ago(20)) == Limit(
        None, f"the last clean retained all from {ago(20)} on, now it is the first write within the time to retain"
    )
