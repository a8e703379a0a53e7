"""Hudi's clean of a partition as a whole: it deletes also what was committed there after it was planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bucketingest.hudi.plans.clean_plan import CleanMetadata
from bucketingest.hudi.timeline.instant import CLEAN, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from support.simulation.records import container
from support.tables.other_writers import archive, next_time, replace_file_groups
from support.tables.table_runs import Attempt, TestTable, offsets
from support.tables.write_plans import row

FIRST = (offsets(0, 2), [row("k0"), row("k1", region="us")])
SECOND = (offsets(2, 4), [row("k2"), row("k3", region="us")])
THIRD = (offsets(4, 5), [row("k4", region="us")])


def plan_clean(table: TestTable, *partitions: str, files_of: Sequence[str] = ()) -> str:
    """What Hudi plans when everything in these partitions was replaced; the request time. `files_of`: partitions whose
    files it names.
    """
    time = next_time(table)
    plan: dict[str, Any] = {
        "earliestInstantToRetain": None,
        "lastCompletedCommitTimestamp": "",
        "policy": "KEEP_LATEST_BY_HOURS",
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": info.path, "isBootstrapBaseFile": False} for info in table.storage.list(partition)]
            for partition in files_of
        },
        "partitionsToBeDeleted": list(partitions),
        "extraMetadata": {},
    }
    create_requested(table.storage, time, CLEAN, container("HoodieCleanerPlan", plan))
    create_inflight(table.storage, time, CLEAN)
    return time


def delete(table: TestTable, partition: str) -> None:
    table.storage.delete_many([info.path for info in table.storage.list(partition)])


def finish_clean(table: TestTable, time: str) -> None:
    complete(table.storage, time, next_time(table), CleanMetadata(time, {}, "", "").encode(), CLEAN)


def replace_partition(table: TestTable, partition: str) -> None:
    groups = {row["_hoodie_file_name"] for row in table.visible_rows() if row["_hoodie_partition_path"] == partition}
    replace_file_groups(table, {partition: sorted(groups)})


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


def test_a_clean_of_another_partition_or_before_the_commit_changes_nothing(table: TestTable, attempt: Attempt) -> None:
    clean = plan_clean(table, "asia")
    attempt.run(*SECOND)
    finish_clean(table, clean)
    replace_partition(table, "us")
    delete(table, "us")
    finish_clean(table, plan_clean(table, "us"))
    attempt.run(*THIRD)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
