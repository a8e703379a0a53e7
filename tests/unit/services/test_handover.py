"""After a handover every key is in a base file, where Hudi's SIMPLE and BLOOM indexes look."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.instant import COMPACTION
from bucketingest.hudi.timeline.timeline import Timeline, create_requested
from bucketingest.services.compaction.propose import propose
from bucketingest.services.errors import NotHandedOver
from bucketingest.services.handover import hand_over, log_only_groups
from bucketingest.services.protocol.records import End
from support.tables.other_writers import next_time
from support.tables.services.compactions import ALL, compact, holder, started
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import WITH_DELETES, definition, row

FLAT = definition(partition_fields=())


def handed_over(table: TestTable) -> list[End]:
    return [each.end for each in hand_over(table.storage, holder(table.storage), utc_now)]


def test_groups_are_named_whose_log_files_have_keys_that_the_base_file_lacks() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 2), [row("a", at=1), row("b", region="us", at=1)])
    assert compact(table.storage) == [End.COMPLETED]
    assert log_only_groups(table.storage) == []
    table.attempt().run(offsets(2, 4), [row("a", at=2), row("b", region="us", at=2)])
    assert log_only_groups(table.storage) == [], "updates of keys that the base files have"
    news = [row(f"new{number}", at=3) for number in range(20)]
    table.attempt().run(offsets(4, 24), news)
    found = log_only_groups(table.storage)
    assert {each.partition_path for each in found} == {"eu"}
    assert sum(each.keys for each in found) == 20
    assert {each.sample for each in found} <= {each["id"] for each in news}


def test_after_it_no_group_is_left_and_rows_are_the_same() -> None:
    table = TestTable(FLAT)
    table.attempt().run(offsets(0, 3), [row("a", at=1), row("b", at=1), row("c", at=1)])
    table.attempt().run(offsets(3, 5), [row("a", at=2), row("d", at=2)])
    rows = snapshot(table.storage)
    assert handed_over(table) == [End.COMPLETED]
    assert log_only_groups(table.storage) == []
    assert snapshot(table.storage) == rows
    assert handed_over(table) == [], "nothing is left to do"


def test_only_groups_with_such_keys_are_compacted() -> None:
    table = TestTable(FLAT)
    table.attempt().run(offsets(0, 9), [row(f"k{number}", at=1) for number in range(9)])
    assert compact(table.storage) == [End.COMPLETED]
    table.attempt().run(offsets(9, 18), [row(f"k{number}", at=2) for number in range(9)])
    table.attempt().run(offsets(18, 19), [row("new", at=3)])
    (chosen,) = log_only_groups(table.storage)
    assert handed_over(table) == [End.COMPLETED]
    groups = load_file_view(table.storage, table.timeline()).groups
    assert {each.file_id for each in groups if each.latest and not each.latest.log_files} == {chosen.file_id}


def test_a_compaction_that_another_process_left_is_finished_first() -> None:
    table = TestTable(FLAT)
    table.attempt().run(offsets(0, 2), [row("a", at=1), row("b", at=1)])
    started(table.storage)
    assert handed_over(table) == [End.COMPLETED]
    assert sorted(snapshot(table.storage)) == ["a", "b"]


def test_file_groups_of_one_id_in_two_partitions_are_refused() -> None:
    table = TestTable(definition(buckets=1))
    table.attempt().run(offsets(0, 2), [row("a", at=1), row("b", region="us", at=1)])
    with pytest.raises(NotHandedOver, match="is in the partitions 'eu' and 'us': Hudi's writers with a SIMPLE or"):
        handed_over(table)
    assert len(log_only_groups(table.storage)) == 2, "nothing was done"


def test_a_table_with_a_state_has_no_such_keys_but_those_that_come_again_beside_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table()
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a", at=1), row("b", at=1)])
    attempt.run(offsets(2, 3), [row("a", at=2, deleted=True)], schema=WITH_DELETES)
    assert log_only_groups(table.storage) == []
    work = started(table.storage)
    attempt.run(offsets(3, 4), [row("a", at=3, amount=7)])
    assert work.compaction in Timeline.load(table.storage).times
    assert handed_over(table) == [End.COMPLETED, End.COMPLETED], "the pending one takes the key away"
    assert log_only_groups(table.storage) == []
    assert snapshot(table.storage)["a"]["amount"] == 7


def test_a_pending_compaction_of_another_writer_is_named_as_what_is_in_the_way() -> None:
    table = TestTable(FLAT)
    table.attempt().run(offsets(0, 2), [row("a", at=1), row("b", at=1)])
    proposal = propose(table.storage, ALL, utc_now()).proposal
    assert proposal is not None
    create_requested(table.storage, next_time(table), COMPACTION, proposal.record.plan("").encode())
    with pytest.raises(NotHandedOver, match=r"compaction \d{17} of another writer is pending.*: run it or roll"):
        handed_over(table)
    assert sorted(snapshot(table.storage)) == ["a", "b"]
