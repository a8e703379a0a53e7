"""The committed source position: the end of the chain of instants, or the start of its first hole."""

from __future__ import annotations

import dataclasses

import pytest

from bucketingest.hudi.rollback.rollback import RollbackOptions, roll_back
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.position import Position, Written, position_after
from bucketingest.write.instants.source_range import SourceRange
from support.tables.other_writers import archive, earlier, schedule_compaction
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


def instants(*ranges: tuple[int, int] | tuple[int, int, str]) -> list[Written]:
    """Instants of one micro-batch each, oldest first; a third item: rolled back."""
    written = [
        Written(str(number), (offsets(start, end),), rolled_back=bool(rest))
        for number, (start, end, *rest) in enumerate(ranges)
    ]
    return written[::-1]


BACK = "rolled back"


@pytest.mark.parametrize(
    ("found", "end", "lost"),
    [
        (instants(), None, ()),
        (instants((0, 5), (5, 9)), 9, ()),
        (instants((0, 5), (9, 12)), 5, ("0",)),
        (instants((0, 5), (9, 12), (5, 9), (9, 12)), 12, ()),
        (instants((0, 5), (9, 12), (5, 9)), 9, ()),
        (instants((0, 5), (9, 12), (14, 20)), 5, ("1", "0")),
        (instants((0, 5), (5, 9, BACK)), 5, ("1",)),
        (instants((0, 5), (5, 9, BACK), (9, 12)), 5, ("1",)),
        (instants((0, 5), (5, 9, BACK), (9, 12), (5, 9)), 9, ()),
        (instants((0, 5), (5, 9, BACK), (9, 12), (5, 12)), 12, ()),
        (instants((3, 5, BACK), (5, 9)), 3, ("0",)),
        (instants((0, 5), (5, 9, BACK), (5, 9, BACK)), 5, ("2",)),
    ],
)
def test_the_position_is_where_the_chain_first_breaks(
    found: list[Written], end: int | None, lost: tuple[str, ...]
) -> None:
    position = position_after(found)
    assert position.lost == lost
    assert (None if position.end is None else position.end.end) == (None if end is None else offsets(0, end).end)


def test_a_first_instant_that_was_rolled_back_leads_to_the_source_s_beginning() -> None:
    first = SourceRange("checkpoint", None, "0", "query", 0)
    second = SourceRange("checkpoint", "0", "1", "query", 1)
    assert position_after([Written("1", (second,)), Written("0", (first,), rolled_back=True)]) == Position(None, ("0",))


def test_a_partition_that_appears_in_a_later_instant_is_not_a_hole() -> None:
    later = SourceRange("kafka", '{"orders":{"0":5}}', '{"orders":{"0":6,"1":80}}', "query", 1)
    assert position_after([Written("1", (later,)), *instants((0, 5))]) == Position(later)


@pytest.mark.parametrize("is_named", [True, False])
def test_an_instant_in_which_a_partition_appeared_is_a_hole_when_it_is_lost(is_named: bool) -> None:
    """Nothing but the start of the next one says that it was there."""
    appears = SourceRange("kafka", '{"orders":{"0":5}}', '{"orders":{"0":5,"1":3}}', "query", 1)
    later = SourceRange("kafka", '{"orders":{"0":5,"1":3}}', '{"orders":{"0":6,"1":4}}', "query", 2)
    lost = [Written("1", (appears,), rolled_back=True)] if is_named else []
    position = position_after([Written("2", (later,)), *lost, *instants((0, 5))])
    assert position.lost
    assert position.end is not None
    assert position.end.end == offsets(0, 5).end


def test_another_checkpoint_s_numbers_are_not_compared() -> None:
    old = SourceRange("checkpoint", None, "7", "old", 7)
    new = SourceRange("checkpoint", None, "0", "new", 0)
    later = dataclasses.replace(new, start="0", end="3", batch_id=1)
    found = [Written("2", (later,)), Written("1", (new,)), Written("0", (old,))]
    assert position_after(found) == Position(later)


@pytest.fixture
def table() -> TestTable:
    table = TestTable()
    writer = table.attempt()
    for n in range(3):
        writer.run(offsets(n, n + 1), [row(f"k{n}")])
    return table


def roll_back_late(table: TestTable, number: int) -> None:
    """Finishes a rollback that was started before the instant was complete: its files are deleted."""
    instant = table.timeline().completed_commits[number]
    content = table.storage.get(path_of(instant))
    table.storage.delete(path_of(instant))
    roll_back(table.storage, instant.request_time, RollbackOptions())
    table.storage.create(path_of(instant), content)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_instant_that_a_rollback_took_after_its_completion_is_ingested_again(table: TestTable, number: int) -> None:
    roll_back_late(table, number)
    assert table.visible_keys() == sorted({"k0", "k1", "k2"} - {f"k{number}"})
    writer = table.attempt()
    assert writer.start.verdict is StartVerdict.REWOUND
    assert writer.coordinator.position is None or writer.coordinator.position.end == offsets(0, number).end
    for n in range(number, 4):
        writer.run(offsets(n, n + 1), [row(f"k{n}")])
    assert {r["_hoodie_record_key"] for r in table.visible_rows()} == {"k0", "k1", "k2", "k3"}
    again = table.attempt()
    assert again.start.verdict is StartVerdict.IN_STEP
    assert again.coordinator.position == offsets(3, 4)


def test_a_running_attempt_notices_at_its_next_instant(table: TestTable) -> None:
    writer = table.attempt()
    roll_back_late(table, 1)
    with pytest.raises(PositionLost, match="removed completed instants from the table"):
        writer.run(offsets(3, 4), [row("k3")])
    start = writer.coordinator.start()
    assert start.position is not None
    assert start.position.end == offsets(0, 1).end
    for n in range(1, 4):
        writer.run(offsets(n, n + 1), [row(f"k{n}")])
    assert {r["_hoodie_record_key"] for r in table.visible_rows()} == {"k0", "k1", "k2", "k3"}


def test_a_completed_file_that_vanished_is_noticed_while_running(table: TestTable) -> None:
    writer = table.attempt()
    table.storage.delete(path_of(table.timeline().completed_commits[2]))
    with pytest.raises(PositionLost):
        writer.run(offsets(3, 4), [row("k3")])
    assert writer.coordinator.start().position == offsets(1, 2)


def test_archived_instants_that_a_late_request_hides_are_not_gone(table: TestTable) -> None:
    """Readers take them for not committed until an archival takes the older compaction off."""
    writer = table.attempt()
    oldest = table.timeline().instants[0].request_time
    archive(table)
    schedule_compaction(table, time=earlier(oldest))
    writer.run(offsets(3, 4), [row("k3")])
    assert len(table.timeline().completed_commits) == 1
