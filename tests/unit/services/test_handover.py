"""After a handover every key is in a base file, where Hudi's SIMPLE and BLOOM indexes look."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.instant import COMPACTION
from bucketingest.hudi.timeline.timeline import Timeline, create_requested
from bucketingest.index.assignment import planned_file_ids
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import End
from bucketingest.services.errors import NotHandedOver
from bucketingest.services.handover import hand_over, log_only_groups
from support.tables.other_writers import next_time
from support.tables.services.compactions import ALL, Written, compact, holder, started, written
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import WITH_DELETES, row


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


@pytest.mark.parametrize("base_files", [False, True])
def test_after_it_no_group_is_left_and_rows_are_the_same(*, base_files: bool) -> None:
    given = written(base_files=base_files)
    assert handed_over(given.table) == [End.COMPLETED]
    assert log_only_groups(given.storage) == []
    given.unchanged()
    assert handed_over(given.table) == [], "nothing is left to do"
    given.goes_on()


def test_only_groups_with_such_keys_are_compacted() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 2), [row("a", at=1), row("b", region="us", at=1)])
    assert compact(table.storage) == [End.COMPLETED]
    table.attempt().run(offsets(2, 4), [row("a", at=2), row("new", region="us", at=2)])
    assert handed_over(table) == [End.COMPLETED]
    logs = {
        group.partition_path: len(group.latest.log_files)
        for group in load_file_view(table.storage, table.timeline()).groups
        if group.latest is not None and group.latest.log_files
    }
    assert logs == {"eu": 1}, "the update stays in its log file"


def test_a_compaction_that_another_process_left_is_finished_first() -> None:
    given = written(base_files=False)
    started(given.storage)
    assert handed_over(given.table) == [End.COMPLETED]
    given.unchanged()


def test_a_table_with_a_state_has_no_such_keys_but_those_that_come_again_beside_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_file_ids, "local_folder", lambda table_id: tmp_path / table_id.hex())
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
    given: Written = written(base_files=False)
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    create_requested(given.storage, next_time(given.table), COMPACTION, proposal.record.plan("").encode())
    with pytest.raises(
        NotHandedOver, match=r"compaction \d{17} of another writer is pending.*: run it or roll it back"
    ):
        hand_over(given.storage, holder(given.storage), utc_now)
    assert snapshot(given.storage) == given.rows
