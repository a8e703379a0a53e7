"""What is read from the table before a choice is made."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.plans.clean_plan import CleanMetadata
from bucketingest.hudi.plans.compaction_plan import CompactionOperation, CompactionPlan
from bucketingest.hudi.rollback.plan import RollbackPlan
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, COMPACTION, REPLACE_COMMIT, ROLLBACK
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.services.clean.execute import choose_now, clean_table
from bucketingest.services.clean.facts import CleanFacts, PendingPlan, Superseder, load_clean_facts
from bucketingest.storage import open_storage
from support.tables.clusterings import request_clustering
from support.tables.fixtures import unpack_fixture
from support.tables.services.named_slices import FILE_ID, GROUP, HOUR, NOW, NamedTable, ago
from support.tables.services.stored_slices import StoredTable


def stored() -> StoredTable:
    table = NamedTable()
    table.write(300)
    table.compact(200, done=190, put=150)
    table.write(150)
    table.compact(100)
    table.write(10)
    return StoredTable(table)


def facts(table: StoredTable) -> CleanFacts:
    return load_clean_facts(table.storage)[1]


def test_a_superseding_compaction_has_its_plan_and_its_files() -> None:
    table = stored()
    found = facts(table).superseder(ago(200))
    assert found == table.named.superseders[ago(200)]
    assert found is not None
    assert found.base_files == {f"eu/{BaseFileName(FILE_ID, ago(200))}"}


def test_a_superseding_write_has_no_plan() -> None:
    assert facts(stored()).superseder(ago(10)) == Superseder(None, frozenset())


@pytest.mark.parametrize("missing", ["commit", "plan"])
def test_without_plan_or_commit_there_is_none(missing: str) -> None:
    table = stored()
    compaction = table.timeline().find(ago(200), COMMIT)
    assert compaction is not None
    found = facts(table)
    path = path_of(compaction) if missing == "commit" else f".hoodie/timeline/{ago(200)}.compaction.requested"
    table.storage.delete(path)
    assert found.superseder(ago(200)) is None  # asked for after the timeline was loaded
    assert facts(table).superseder(ago(200)) is None
    assert found.superseder(ago(999)) is None


def test_one_that_is_being_rolled_back_counts_as_none() -> None:
    table = stored()
    content = RollbackPlan(ago(200), COMMIT, ()).encode(table.storage.absolute)
    create_requested(table.storage, ago(1), ROLLBACK, content)
    assert facts(table).superseder(ago(200)) is None
    assert facts(table).superseder(ago(100)) is not None


def test_a_replacement_that_is_being_rolled_back_does_not_count() -> None:
    named = NamedTable()
    named.write(300)
    replacement = named.replace(200)
    table = StoredTable(named)
    (instant,) = facts(table).replaced.values()
    assert instant == named.replaced[GROUP]
    content = RollbackPlan(replacement, REPLACE_COMMIT, ()).encode(table.storage.absolute)
    create_requested(table.storage, ago(1), ROLLBACK, content)
    assert facts(table).replaced == {}


def test_completed_files_have_the_time_at_which_they_came() -> None:
    assert facts(stored()).modified[ago(200)] == NOW - timedelta(minutes=150)
    assert set(facts(stored()).modified) == {ago(200), ago(100)}


def test_savepoints_keep_files() -> None:
    table = stored()
    log = f"eu/{LogFileName(FILE_ID, ago(300), 1)}"
    table.savepoint(ago(300), [log])
    table.savepoint(ago(10), [], pending=True)
    assert facts(table).savepoints == {ago(300): {log}}
    choice = choose_now(table.guarded(), HOUR)
    assert [each.why for each in choice.kept] == [f"savepoint {ago(300)} keeps it"]


@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_pending_compactions_need_their_slices(action: str) -> None:
    table = stored()
    operations = [CompactionOperation("eu", FILE_ID, base, None, ()) for base in (ago(200),)]
    create_requested(table.storage, ago(5), action, CompactionPlan(tuple(operations)).encode())
    assert facts(table).pending == {GROUP: PendingPlan(f"{action} {ago(5)}", ago(200))}


def test_of_two_pending_plans_the_one_that_reads_more_counts() -> None:
    table = stored()
    for minutes, base in ((6, 200), (5, 300), (4, 100)):
        operation = CompactionOperation("eu", FILE_ID, ago(base), None, ())
        create_requested(table.storage, ago(minutes), COMPACTION, CompactionPlan((operation,)).encode())
    assert facts(table).pending == {GROUP: PendingPlan(f"compaction {ago(5)}", ago(300))}


@pytest.mark.parametrize("action", ["clustering", "replacecommit"])
def test_pending_clusterings_need_all_of_their_groups(action: str) -> None:
    table = stored()
    request_clustering(table.storage, ago(5), [("eu", FILE_ID)], action)
    create_requested(table.storage, ago(4), action, b"")  # insert_overwrite
    create_inflight(table.storage, ago(3), action)
    assert facts(table).pending == {GROUP: PendingPlan(f"{action} {ago(5)}")}


def test_a_pending_compaction_without_a_plan_stops_cleaning() -> None:
    table = stored()
    create_inflight(table.storage, ago(5), COMPACTION)
    with pytest.raises(InvalidTable, match="pending without a plan"):
        facts(table)


def test_the_last_clean_says_where_to_go_on() -> None:
    table = stored()
    assert facts(table).last_earliest == ""
    clean_table(table.guarded(), HOUR)
    assert facts(table).last_earliest == ago(10)
    newer = CleanMetadata("", {}, ago(5), "").encode()
    complete(table.storage, format_time(table.clock()), format_time(table.clock()), newer, CLEAN)
    assert facts(table).last_earliest == ago(5)


def test_hudis_clean_does_too(tmp_path: object) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))  # type: ignore[arg-type]
    assert load_clean_facts(storage)[1].last_earliest == "20261121092005361"
