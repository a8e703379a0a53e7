"""What one of many tables reads next must still be there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceDataLost
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.tables import one_table
from bucketingest.stream.tables.combined import Answer, WriteAlone
from bucketingest.stream.tables.one_table import OneTable
from bucketingest.stream.tables.shares import TopicOffsets
from bucketingest.stream.tables.topics_look import check_position
from bucketingest.stream.tables.trouble import AttemptsEnded, Trouble, jvm_is_gone, trouble_of
from bucketingest.stream.topics.continuity import text_of
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import CoordinatorSettings
from bucketingest.write.instants.source_range import Offsets, SourceRange
from bucketingest.write.open_table import open_table
from bucketingest.write.rows.write_status import WriteStatus
from support.jobs.retries import COLUMNS, RetriedTable, event
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

POSITION = SourceRange("kafka", None, text_of({("a", 0): 5, ("left", 0): 9}), "before", 6)


def check(
    begin: int, end: int, *, newest: int | None = None, fails: bool = False, further: Mapping[int, int] | None = None
) -> None:
    """`end`: up to where no transaction is open. `further`: where further partitions begin."""
    ends: Offsets = {("a", 0): end if newest is None else newest}
    look = SimpleNamespace(fails_on_loss=fails, newest=lambda _: ends)
    check_position(cast("Any", look), "a", POSITION, TopicOffsets("", {0: begin, **(further or {})}, {0: end}))


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_ends_before_the_position_parks_the_table_whatever_the_options_say(fails: bool) -> None:
    """Its next messages come at offsets that the table has: it would skip them, and go on behind them."""
    with pytest.raises(SourceDataLost, match="ends at offset 3, and the table has everything before 5"):
        check(0, 3, fails=fails)


def test_messages_that_are_gone_are_a_loss_unless_the_options_accept_it() -> None:
    check(7, 9)
    with pytest.raises(SourceDataLost, match="offsets 5 to 6 are gone"):
        check(7, 9, fails=True)


def test_the_first_messages_of_a_partition_that_has_come_may_be_gone_too() -> None:
    with pytest.raises(SourceDataLost, match="topic a partition 1: offsets 0 to 3 are gone"):
        check(0, 9, fails=True, further={1: 4})


def test_an_open_transaction_is_waited_for() -> None:
    check(0, 3, newest=8, fails=True)


def test_letters_that_were_retried_before_it_was_one_of_many_come_back_if_their_commit_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RetriedTable(tmp_path)
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    (instant,) = table.retry().commits
    table.storage.delete_many([info.path for info in table.storage.list(".hoodie/timeline") if instant in info.path])
    opened = open_table(table.storage, table.definition, COLUMNS, has_deletes=True)
    coordinator = InstantCoordinator(opened, CoordinatorSettings(table.pipeline.name, 1, 0, table.letters))
    given, nothing = SimpleNamespace(pipeline=table.pipeline), cast("Any", None)
    OneTable._started(opening(monkeypatch, coordinator), cast("Any", given), table.storage, nothing, nothing)
    assert [letter["offset"] for letter in table.left()] == [0]


def test_rows_that_no_attempt_survives_are_written_alone_and_later_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends the driver ends the work on all tables: the others have time between two tries."""
    table = TestTable()
    table.storage = open_storage(str(tmp_path))
    table.attempt().run(offsets(0, 1), [row("a")])
    monkeypatch.setattr(one_table, "places_of", lambda *_: [])
    monkeypatch.setattr(one_table, "put_back", lambda *_: None)
    waits = []
    for start in range(5):
        attempt = table.attempt()
        this, given = (
            opening(monkeypatch, attempt.coordinator),
            cast("Any", SimpleNamespace(pipeline=SimpleNamespace(name=""))),
        )
        try:
            OneTable._started(this, given, table.storage, cast("Any", None), cast("Any", None))
        except AttemptsEnded as error:
            this.trouble = trouble_of(error, None)
            waits.append(this.trouble.wait)
            OneTable._started(this, given, table.storage, cast("Any", None), cast("Any", None))
        else:
            assert start < 2, "the first two starts go on at once"
        with suppress(ZeroDivisionError):
            attempt.run(offsets(1, 2), [row("b")], then=lambda: 1 / 0)
    assert waits == sorted(waits)
    assert waits[-1] > waits[0] > 1


def test_a_connection_that_is_refused_is_not_the_jvms_if_that_answers() -> None:
    """Registries, locks and stores refuse connections, too: of one table."""
    infos = SimpleNamespace(getExecutorInfos=lambda: [None])
    scala = SimpleNamespace(statusTracker=lambda: infos)
    answers = cast("Any", SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala))))
    gone = cast("Any", SimpleNamespace(sparkContext=None))

    assert not jvm_is_gone(ConnectionRefusedError("the registry"), answers)
    assert jvm_is_gone(ConnectionRefusedError("the JVM"), gone)
    assert not jvm_is_gone(ValueError("odd"), gone)


def test_after_a_failure_it_is_written_alone_until_it_has_written() -> None:
    """And so is one whose job with others failed."""
    jobs: list[str] = []
    fails: list[Exception] = []

    def submit(*_: object) -> list[WriteStatus]:
        jobs.append("with others")
        if fails:
            raise fails.pop()
        return []

    def write(_: object) -> list[Answer]:
        jobs.append("alone")
        return [fails.pop() if fails else []]

    before = forward_seconds()
    gathering = SimpleNamespace(submit=submit, withdraw=lambda _: None, written_at=before)
    shared = SimpleNamespace(gathering=gathering, write=write, alone=Semaphore())
    table = cast("Any", SimpleNamespace(topic="a", trouble=None, _shared=shared))
    work = cast("Any", None)

    assert OneTable._with_others(table, work) == ([], before)
    fails.append(WriteAlone())
    assert OneTable._with_others(table, work)[1] > before, "the topic may have been made anew since the other job"
    table.trouble = parked(ValueError("odd"))
    assert OneTable._with_others(table, work)[1] > before
    fails.append(ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        OneTable._with_others(table, work)
    assert jobs == ["with others", "with others", "alone", "alone", "alone"]


def parked(error: Exception) -> Trouble:
    return Trouble(error, str(error), 1, 0.0)


def opening(monkeypatch: pytest.MonkeyPatch, coordinator: InstantCoordinator) -> Any:
    """A table that is being opened."""
    function = SimpleNamespace(begin=lambda *_: None, commit=lambda *, now: now)
    monkeypatch.setattr(one_table, "opened_for", lambda *_, **__: (coordinator, function))
    return SimpleNamespace(
        topic="shop.orders",
        board=ProgressBoard(),
        trouble=None,
        _may_serve=None,
        _catalogs=None,
        _shared=SimpleNamespace(services=SimpleNamespace(start=None), stop=Event()),
    )
