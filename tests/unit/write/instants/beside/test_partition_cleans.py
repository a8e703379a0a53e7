"""Hudi's clean of a partition as a whole: it deletes also what was committed there after it was planned."""

from __future__ import annotations

import uuid

import pytest

from bucketingest.hudi.plans.replaced import replacing_commit
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from support.tables.other_writers import archive, commit, finish_clean, next_time, plan_clean, replace_file_groups
from support.tables.table_runs import PIPELINE, Attempt, TestTable, offsets
from support.tables.write_plans import row

FIRST = (offsets(0, 2), [row("k0"), row("k1", region="us")])
SECOND = (offsets(2, 4), [row("k2"), row("k3", region="us")])
THIRD = (offsets(4, 5), [row("k4", region="us")])


def delete(table: TestTable, partition: str) -> None:
    table.storage.delete_many([info.path for info in table.storage.list(partition)])


def replace_partition(table: TestTable, partition: str) -> None:
    groups = {row["_hoodie_file_name"] for row in table.visible_rows() if row["_hoodie_partition_path"] == partition}
    replace_file_groups(table, {partition: sorted(groups)})


def cluster(table: TestTable, partition: str) -> None:
    """What Hudi's clustering leaves: the rows of the only file group are in a new one."""
    (group,) = {row["_hoodie_file_name"] for row in table.visible_rows() if row["_hoodie_partition_path"] == partition}
    time, made = next_time(table), f"{group[:8]}{str(uuid.uuid4())[8:]}-0"
    path = f"{partition}/{made}_0-0-0_{time}.parquet"
    table.storage.create(path, b"rows")
    content = replacing_commit([WriteStat(made, path, partition, num_writes=1)], [(partition, group)], {}, "CLUSTER")
    create_requested(table.storage, time, REPLACE_COMMIT, b"")
    create_inflight(table.storage, time, REPLACE_COMMIT)
    complete(table.storage, time, next_time(table), content, REPLACE_COMMIT)


@pytest.fixture
def attempt(table: TestTable) -> Attempt:
    """Its first micro-batch is complete, and all file groups of `eu` were replaced since."""
    started = table.attempt()
    started.run(*FIRST)
    replace_partition(table, "eu")
    return started


def test_rows_that_were_committed_between_plan_and_deletion_are_ingested_again(
    table: TestTable, attempt: Attempt
) -> None:
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    delete(table, "eu")
    finish_clean(table, clean)
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(SECOND, THIRD)
    assert set(table.visible_keys()) == {"k1", "k2", "k3", "k4"}, "k0 was replaced"
    last = table.attempt()
    assert last.start.verdict is StartVerdict.IN_STEP, "once"
    assert table.leftovers() == []


def test_rows_that_were_deleted_while_no_attempt_ran_are_ingested_again_by_the_next_start(
    table: TestTable, attempt: Attempt
) -> None:
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    delete(table, "eu")
    finish_clean(table, clean)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(SECOND)
    assert "k2" in table.visible_keys()


def test_a_clean_that_is_completed_a_second_time_may_have_deleted_again(table: TestTable, attempt: Attempt) -> None:
    clean = plan_clean(table, "eu")
    delete(table, "eu")
    finish_clean(table, clean)  # by another process, as its own was away for a day
    attempt.run(*SECOND)
    delete(table, "eu")
    finish_clean(table, clean)
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    table.attempt().go_on(SECOND, THIRD)
    assert set(table.visible_keys()) == {"k1", "k2", "k3", "k4"}
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "once"


def test_rows_that_were_deleted_before_their_commit_are_ingested_again(table: TestTable, attempt: Attempt) -> None:
    def clean() -> None:
        time = plan_clean(table, "eu")
        delete(table, "eu")
        finish_clean(table, time)

    with pytest.raises(PositionLost, match=r"clean \d+, which deleted partition 'eu'"):
        attempt.run(*SECOND, then=clean)
    again = table.attempt()
    again.go_on(SECOND)
    assert "k2" in table.visible_keys()
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


def test_rows_that_the_planner_did_not_see_are_ingested_again_though_its_request_is_later(
    table: TestTable, attempt: Attempt
) -> None:
    attempt.run(*SECOND)
    clean = plan_clean(table, "eu")  # the look on which it is planned came before the commit
    delete(table, "eu")
    finish_clean(table, clean)
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    table.attempt().go_on(SECOND, THIRD)
    assert set(table.visible_keys()) == {"k1", "k2", "k3", "k4"}
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "once"


def test_rows_that_were_replaced_do_not_come_again_though_the_history_has_the_instant_that_replaced_them(
    table: TestTable, attempt: Attempt
) -> None:
    clean = plan_clean(table, "eu")
    delete(table, "eu")
    finish_clean(table, clean)
    archive(table, only=REPLACE_COMMIT)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
    assert attempt is not None


def test_rows_come_again_though_a_clean_before_took_older_files_of_their_file_group(
    table: TestTable, attempt: Attempt
) -> None:
    attempt.run(*SECOND)
    earlier = plan_clean(table, files_of=["eu"])  # of file slices that a compaction superseded, say
    finish_clean(table, earlier)
    delete(table, "eu")
    finish_clean(table, plan_clean(table, "eu"))
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    table.attempt().go_on(SECOND, THIRD)
    assert set(table.visible_keys()) == {"k1", "k2", "k3", "k4"}


def test_a_partition_that_a_clean_deleted_has_its_metadata_again_though_the_clean_was_pending_at_the_last_look(
    table: TestTable, attempt: Attempt
) -> None:
    clean = plan_clean(table, "us")
    attempt.run(offsets(2, 3), [row("k2", region="us")])
    replace_partition(table, "us")
    delete(table, "us")
    finish_clean(table, clean)
    attempt.run(offsets(3, 4), [row("k3", region="us")])
    assert "k3" in table.visible_keys()
    assert table.storage.exists("us/.hoodie_partition_metadata")


def test_rows_come_again_if_the_clean_deleted_the_file_that_a_clustering_had_moved_them_to(
    table: TestTable, attempt: Attempt
) -> None:
    clean = plan_clean(table, "us")
    cluster(table, "us")
    attempt.run(offsets(2, 3), [row("k2")])
    delete(table, "us")
    finish_clean(table, clean)
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(offsets(3, 4), [row("k3")])
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on((offsets(0, 2), FIRST[1]))
    assert "k1" in table.visible_keys()


def test_rows_whose_files_still_stand_when_the_clean_is_complete_do_not_come_again(
    table: TestTable, attempt: Attempt
) -> None:
    """Its writer is gone, and the clean was finished later, without the deletion of the partition."""
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    finish_clean(table, clean)
    attempt.run(*THIRD)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


def test_rows_come_again_if_readers_do_not_see_the_partition_any_more(table: TestTable, attempt: Attempt) -> None:
    """The clean deletes what it has listed: the partition's metadata, but not a file that came after the listing."""
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    table.storage.delete("eu/.hoodie_partition_metadata")
    finish_clean(table, clean)
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    table.attempt().go_on(SECOND, THIRD)
    assert table.storage.exists("eu/.hoodie_partition_metadata")


def test_a_clean_of_another_partition_or_before_the_commit_changes_nothing(table: TestTable, attempt: Attempt) -> None:
    clean = plan_clean(table, "asia")
    attempt.run(*SECOND)
    finish_clean(table, clean)
    replace_partition(table, "us")
    delete(table, "us")
    finish_clean(table, plan_clean(table, "us"))
    attempt.run(*THIRD)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


@pytest.mark.parametrize("what", ["the clean alone", "all"])
def test_rows_come_again_though_the_clean_was_archived_while_no_attempt_ran(
    table: TestTable, attempt: Attempt, what: str
) -> None:
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    delete(table, "eu")
    finish_clean(table, clean)
    archive(table, only=CLEAN if what == "the clean alone" else None)
    commit(table, CommitMetadata())
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(SECOND)
    assert "k2" in table.visible_keys()
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "once"


@pytest.mark.parametrize("forgotten", [False, True], ids=["remembered", "forgotten"])
def test_rows_come_again_though_the_clean_was_archived_between_two_commits(
    table: TestTable, attempt: Attempt, forgotten: bool
) -> None:
    clean = plan_clean(table, "eu")
    attempt.run(*SECOND)
    delete(table, "eu")
    finish_clean(table, clean)
    second = table.timeline().completed_commits[-1].request_time
    archive(table)
    commit(table, CommitMetadata())
    if forgotten:
        Journal(table.storage, PIPELINE).forget([second])
    with pytest.raises(PositionLost, match="their rows are ingested again"):
        attempt.run(*THIRD)
    again = table.attempt()
    again.go_on(SECOND, THIRD)
    assert {"k2", "k4"} <= set(table.visible_keys())
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "once"
