"""Which file slices a clean deletes, and why others stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.plans.clean_plan import BY_HOURS, BY_VERSIONS, Earliest
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.facts import PendingPlan, Superseder
from support.tables.services.named_slices import (
    FILE_ID,
    GROUP,
    HOUR,
    NamedTable,
    ago,
    deleted_instants,
    time_in,
    times_by_partition,
)

OTHER = ("us", FILE_ID)
LOG = LogFileName(FILE_ID, ago(300), 1)


def three_slices() -> NamedTable:
    """Slices of 300 (log files only), 200 and 100 minutes ago; the newest write is 10 minutes old."""
    table = NamedTable()
    table.write(300)
    table.write(290)
    table.compact(200)
    table.write(150)
    table.compact(100)
    table.write(10)
    return table


def test_a_slice_goes_whole_and_the_newest_one_before_the_earliest_instant_stays() -> None:
    choice = three_slices().choose()
    assert deleted_instants(choice) == [ago(300), ago(290), ago(150), ago(200)]  # log files before their base file
    assert choice.kept == ()


def test_the_plan_says_from_when_on_all_is_retained_and_what_was_completed() -> None:
    plan = three_slices().choose().plan
    assert plan is not None
    assert plan.earliest == Earliest(ago(10), "deltacommit")
    assert (plan.last_completed, plan.policy, plan.extra_metadata) == (ago(10), BY_HOURS, {})


def test_nothing_to_delete_is_no_plan() -> None:
    table = NamedTable()
    table.write(300)
    table.compact(200)
    table.write(10)
    assert table.choose().plan is not None
    assert table.choose(Retention(retain=timedelta(hours=9))).plan is None


def test_the_newest_slice_stays_however_old() -> None:
    table = NamedTable()
    table.write(9000)
    assert table.choose().plan is None
    table.compact(8000)
    assert table.choose().plan is None  # the newest before the earliest instant, which is the compaction


def test_an_idle_table_is_cleaned_by_time_alone() -> None:
    table = NamedTable()
    table.write(300)
    table.compact(200)
    table.write(150)
    table.compact(100)
    choice = table.choose()
    assert choice.limit.instant is not None
    assert choice.limit.instant.request_time == ago(100)
    assert deleted_instants(choice) == [ago(300)]


def test_a_slice_stays_while_its_log_file_is_in_no_plan() -> None:
    """Its instant completed before the compaction, which was planned without it: it has the only copy of its rows."""
    table = NamedTable()
    table.write(300)
    lost = table.write(290)
    compaction = table.compact(200, without=[lost])
    table.write(10)
    choice = table.choose()
    assert choice.plan is None
    (kept,) = choice.kept
    assert (kept.partition_path, kept.file_id, kept.base_instant) == ("eu", FILE_ID, ago(300))
    assert kept.why == (
        f"log file {LogFileName(FILE_ID, lost, 1)} is not in the plan of {compaction}, which superseded it"
    )


def test_it_goes_once_the_log_file_is_known_to_be_merged() -> None:
    table = NamedTable()
    table.write(300)
    lost = table.write(290)
    table.compact(200, without=[lost])
    table.write(10)
    merged = f"eu/{LogFileName(FILE_ID, lost, 1)}"
    table.superseders[ago(200)] = replace(table.superseders[ago(200)], added=frozenset({merged}))
    assert deleted_instants(table.choose()) == [ago(300), ago(290)]


def test_a_slice_stays_if_the_plan_that_superseded_it_is_gone() -> None:
    table = three_slices()
    del table.superseders[ago(200)]
    choice = table.choose()
    assert deleted_instants(choice) == [ago(150), ago(200)]
    assert [each.why for each in choice.kept] == [
        f"the plan or the commit of {ago(200)}, which superseded it, is gone, or is being rolled back"
    ]


def test_a_slice_stays_if_the_commit_does_not_name_the_newer_base_file() -> None:
    """A file of an earlier attempt, visible by its name alone: it will be swept."""
    table = three_slices()
    table.superseders[ago(200)] = replace(table.superseders[ago(200)], base_files=frozenset())
    choice = table.choose()
    assert deleted_instants(choice) == [ago(150), ago(200)]
    assert "does not name the base file" in choice.kept[0].why


@pytest.mark.parametrize("other", [None, str(BaseFileName(FILE_ID, ago(250)))])
def test_a_slice_stays_if_another_base_file_was_merged(other: str | None) -> None:
    table = three_slices()
    found = table.superseders[ago(100)]
    assert found.plan is not None
    operations = tuple(replace(each, base_file=other) for each in found.plan.operations)
    table.superseders[ago(100)] = replace(found, plan=replace(found.plan, operations=operations))
    choice = table.choose()
    assert deleted_instants(choice) == [ago(300), ago(290)]
    assert choice.kept[0].why == f"the plan of {ago(100)}, which superseded it, does not name its base file"


def test_a_log_file_that_comes_again_after_a_clean_goes_with_the_next() -> None:
    """A late twin of its task put it back; the base file of its slice is gone, and all its rows are in the next."""
    table = three_slices()
    for path in [each for each in table.paths if time_in(each) in (ago(300), ago(290), ago(200))]:
        del table.paths[path]
    assert deleted_instants(table.choose()) == [ago(150)]


@pytest.mark.parametrize("log_files", [False, True])
def test_what_a_write_superseded_goes_only_without_log_files(log_files: bool) -> None:
    """Hudi's writer may write a new base file in a deltacommit; it merges no log files."""
    table = NamedTable()
    table.write(400)
    table.compact(300)
    if log_files:
        table.write(290)
    time = table.compact(200)
    table.names[-1] = table.names[-1].replace(".commit", ".deltacommit")
    table.superseders[time] = Superseder(None, table.superseders[time].base_files)
    table.compact(100)
    table.write(10)
    assert (ago(300) in deleted_instants(table.choose())) is not log_files


def test_a_slice_with_a_savepointed_file_stays_and_the_plan_names_the_savepoint() -> None:
    table = three_slices()
    table.savepoints = {ago(290): frozenset({f"eu/{LogFileName(FILE_ID, ago(290), 1)}"}), ago(5): frozenset({"eu/x"})}
    choice = table.choose()
    assert deleted_instants(choice) == [ago(150), ago(200)]
    assert [(each.base_instant, each.why) for each in choice.kept] == [(ago(300), f"savepoint {ago(290)} keeps it")]
    assert choice.plan is not None
    assert choice.plan.savepoints == {ago(290), ago(5)}


def test_a_slice_that_a_pending_plan_reads_stays() -> None:
    table = three_slices()
    table.pending[GROUP] = PendingPlan("logcompaction 1", ago(200))
    choice = table.choose()
    assert deleted_instants(choice) == [ago(300), ago(290)]
    assert [(each.base_instant, each.why) for each in choice.kept] == [
        (ago(200), "pending logcompaction 1 reads its file group")
    ]


def test_all_of_a_group_in_a_pending_clustering_stays() -> None:
    table = three_slices()
    table.pending[GROUP] = PendingPlan("clustering 1")
    choice = table.choose()
    assert choice.plan is None
    assert len(choice.kept) == 2


def test_files_of_pending_instants_stay() -> None:
    table = three_slices()
    table.paths[f"eu/{LogFileName(FILE_ID, ago(295), 1)}"] = 1
    table.names.append(f"{ago(295)}.rollback.inflight")  # neither committed nor archived
    assert ago(295) not in deleted_instants(table.choose())


@pytest.mark.parametrize(("replaced_at", "gone"), [(61, True), (59, False)])
def test_a_replaced_group_goes_whole_once_it_is_old_enough(replaced_at: float, gone: bool) -> None:
    table = NamedTable()
    table.write(300)
    table.compact(200)
    table.write(150)
    table.replace(replaced_at)
    table.write(10, OTHER)
    assert sorted(deleted_instants(table.choose())) == ([ago(300), ago(200), ago(150)] if gone else [])


def test_a_replaced_group_stays_while_readers_see_it_since_lately() -> None:
    table = NamedTable()
    table.write(300)
    table.replace(200, done=30)
    table.write(10, OTHER)
    assert table.choose().plan is None


def test_rows_that_came_after_the_replacement_stay() -> None:
    table = NamedTable()
    table.write(300)
    table.compact(250)
    table.write(210, done=150)
    table.replace(200)
    table.write(10, OTHER)
    choice = table.choose()
    assert deleted_instants(choice) == [ago(300)]
    assert "had replaced its file group" in choice.kept[0].why


@pytest.mark.parametrize(("versions", "deleted"), [(1, [300, 290, 150, 200]), (2, [300, 290]), (3, []), (9, [])])
def test_by_versions_so_many_of_the_newest_slices_stay(versions: int, deleted: list[float]) -> None:
    choice = three_slices().choose(Retention(versions=versions))
    assert deleted_instants(choice) == [ago(minutes) for minutes in deleted]
    if choice.plan is not None:
        assert (choice.plan.policy, choice.plan.earliest) == (BY_VERSIONS, None)


def test_by_versions_a_replaced_group_goes_at_once() -> None:
    table = NamedTable()
    table.write(300)
    table.replace(1)
    assert deleted_instants(table.choose(Retention(versions=9))) == [ago(300)]


def test_a_large_plan_is_cut_after_a_slice_and_leaves_the_earliest_instant_open() -> None:
    """Hudi's next clean would not look at what the cut left."""
    choice = three_slices().choose(files_max=2)
    assert deleted_instants(choice) == [ago(300), ago(290)]
    assert choice.plan is not None
    assert (choice.plan.earliest, choice.plan.policy) == (None, BY_HOURS)
    assert deleted_instants(three_slices().choose(files_max=1)) == [ago(300), ago(290)]


def test_files_are_listed_by_partition() -> None:
    table = NamedTable()
    table.write(300, GROUP, OTHER)
    table.compact(200, GROUP, OTHER)
    table.write(10)
    plan = table.choose().plan
    assert plan is not None
    assert times_by_partition(plan.files) == {"eu": [ago(300)], "us": [ago(300)]}


def test_nothing_goes_while_a_restore_is_pending() -> None:
    table = three_slices()
    table.names.append(f"{ago(1)}.restore.requested")
    for retention in (HOUR, Retention(versions=1)):
        choice = table.choose(retention)
        assert (choice.plan, choice.limit.why) == (None, f"restore {ago(1)} is pending")


@pytest.mark.parametrize(("retain", "versions"), [(None, None), (timedelta(1), 1), (timedelta(-1), None), (None, 0)])
def test_a_retention_is_one_of_two(retain: timedelta | None, versions: int | None) -> None:
    with pytest.raises(ValueError, match="a retention is"):
        Retention(retain, versions)
