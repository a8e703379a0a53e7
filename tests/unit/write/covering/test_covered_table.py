"""The state follows what completed instants did, whoever they are of, and reads no more files than it must."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Collection, Iterator, Sequence
from unittest.mock import patch

import pyarrow as pa
import pytest

from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.hudi.table.table import InsertMode, StateRules
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMPACTION, SAVEPOINT, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, create_requested, path_of
from bucketingest.index.state import loading
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.store import forget_state
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.covering.covered_table import CoveredTable
from bucketingest.write.instants.state_groups import StateGroups
from bucketingest.write.table_groups import Group
from support.tables.instants.abandoned import Killed, die, open_instant
from support.tables.other_writers import archive, commit, next_time, replace_file_groups, schedule_compaction
from support.tables.services.compactions import compact, execute, finish, started
from support.tables.state.tables import (
    THEIRS,
    ForgetfulStorage,
    amounts,
    groups_of_keys,
    insert_by_another,
    state_table,
)
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import WITH_DELETES, row

ROWS = [row("a", amount=1, at=1), row("b", amount=1, at=1)]


@pytest.fixture
def table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> TestTable:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table()
    table.attempt().run(offsets(0, 2), ROWS)
    return table


def fold(covered: CoveredTable, table: TestTable) -> None:
    timeline = table.timeline()
    covered.fold_in(timeline, replaced_file_groups(table.storage, timeline))


def group_of(covered: CoveredTable, key: str, partition: str = "eu") -> str | None:
    known = covered.index.look_up(partition)
    if known is None:
        return None
    number = int(known.find(covered.index.store.hasher.hash(pa.array([key])))[0])
    return None if number < 0 else known.groups[number]


@pytest.fixture
def read() -> Iterator[list[str]]:
    """File ids of the slices whose keys are read."""
    found: list[str] = []

    def keys(storage: Storage, files: FileSlice) -> object:
        found.append((files.base_file or files.log_files[0]).name.file_id)
        return keys_of_rows(storage, files)

    with patch.object(loading, "keys_of_rows", keys):
        yield found


def test_updates_of_ours_are_covered_without_being_read(table: TestTable, read: list[str]) -> None:
    attempt = table.attempt()
    attempt.run(offsets(2, 4), [row("a", amount=2, at=2), row("c", at=2)])
    read.clear()
    attempt.run(offsets(4, 5), [row("b", amount=2, at=3)])
    assert len(read) == 1, "only the new file group of c"


def test_what_it_knows_is_not_read_again(table: TestTable, read: list[str]) -> None:
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    fold(covered, table)
    covered.keep()
    read.clear()
    fold(covered, table)
    fold(CoveredTable(table.storage, StateRules(report_duplicates=False)), table)
    assert read == []


def test_an_instant_of_ours_that_is_not_complete_is_not_covered(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(Killed):
        attempt.run(offsets(2, 3), [row("late", at=1)], die)
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    fold(covered, table)
    assert group_of(covered, "late") is None

    assert open_instant(table)
    table.attempt().run(offsets(2, 3), [row("late", at=1)])
    fold(covered, table)
    assert group_of(covered, "late") is not None


@pytest.mark.parametrize(
    "when", ["between the look at the timeline and the request time", "while its rows are written"]
)
def test_a_key_that_comes_again_while_a_compaction_forgets_it_stays_in_its_group(
    table: TestTable, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted. The instant that brings it back is planned before the compaction completes, and ends later."""
    attempt = table.attempt()
    attempt.run(offsets(2, 3), [row("a", at=2, deleted=True)], schema=WITH_DELETES)
    work = started(table.storage)
    left = [when]

    def compaction_completes(at: str) -> None:
        if left == [at]:
            left.clear()
            execute(table.storage, work)
            assert finish(table.storage) == [End.COMPLETED]

    original = StateGroups.fold_in

    def fold_in(self: StateGroups, timeline: Timeline, written: Sequence[Group], replaced: Collection[Group]) -> None:
        compaction_completes("between the look at the timeline and the request time")
        original(self, timeline, written, replaced)

    monkeypatch.setattr(StateGroups, "fold_in", fold_in)
    attempt.run(offsets(3, 4), [row("a", amount=3, at=3)], lambda: compaction_completes("while its rows are written"))
    assert not left
    attempt.run(offsets(4, 5), [row("a", amount=4, at=4)])
    assert len(groups_of_keys(table)["a"]) == 1
    assert amounts(table)["a"] == 4


def test_files_that_a_listing_leaves_out_are_found_by_their_commit(table: TestTable) -> None:
    covered = CoveredTable(ForgetfulStorage(table.storage), StateRules(report_duplicates=False))
    fold(covered, table)
    insert_by_another(table, [row("new", at=1)])
    fold(covered, table)
    assert group_of(covered, "new") == THEIRS


def test_replaced_file_groups_are_forgotten(table: TestTable) -> None:
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    fold(covered, table)
    found = group_of(covered, "a")
    assert found is not None
    replace_file_groups(table, {"eu": [found]})
    fold(covered, table)
    assert group_of(covered, "a") is None


def test_keys_stay_where_they_are_after_a_compaction(table: TestTable) -> None:
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    table.attempt().run(offsets(2, 3), [row("a", amount=2, at=2)])
    fold(covered, table)
    before = group_of(covered, "a")
    assert compact(table.storage)
    fold(covered, table)
    assert group_of(covered, "a") == before is not None


@pytest.mark.parametrize("inserts", ["base", "log"])
@pytest.mark.parametrize("knows", [True, False])
def test_a_deleted_key_that_a_pending_compaction_brings_back_stays_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, inserts: InsertMode, *, knows: bool
) -> None:
    """A scheduler without the lock plans it from an old look, as another compaction forgets the deletion. The rows of
    the overtaken instant come again: a deletion that finds no key would be dropped.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table(inserts=inserts)
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    if inserts == "log":
        assert compact(table.storage)
    attempt.run(offsets(2, 3), [row("a", amount=2, at=2)])
    deletion = [row("a", at=3, deleted=True)]
    attempt.run(offsets(3, 4), deletion, schema=WITH_DELETES)
    deleting = table.timeline().completed_commits[-1].request_time
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False, inserts=inserts))
    fold(covered, table)
    before = group_of(covered, "a")
    path = path_of(Instant(schedule_compaction(table, without=[deleting]), COMPACTION, State.REQUESTED))
    late = table.storage.get(path)
    table.storage.delete(path)
    assert compact(table.storage)
    if knows:
        fold(covered, table)
        assert group_of(covered, "a") is None
    else:
        forget_state(table.storage)
        covered = CoveredTable(table.storage, StateRules(report_duplicates=False, inserts=inserts))
    compaction = next_time(table)
    path = path_of(Instant(compaction, COMPACTION, State.REQUESTED))
    table.storage.create(path, late)
    fold(covered, table)
    assert group_of(covered, "a") == before is not None

    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.run(offsets(3, 4), deletion, schema=WITH_DELETES)
    path_of_last = path_of(max(table.timeline().completed_commits, key=lambda each: each.completion_time or ""))
    (stat,) = CommitMetadata.decode(table.storage.get(path_of_last), path_of_last).write_stats["eu"]
    assert (stat.file_id, stat.num_deletes) == (before, 1)
    fold(covered, table)
    assert group_of(covered, "a") == before

    table.storage.delete(path)  # its planner rolls it back
    fold(covered, table)
    if inserts == "base":
        assert group_of(covered, "a") is None


@pytest.mark.parametrize("cause", ["its own request", "an older request", "a savepoint"])
@pytest.mark.parametrize("knows", [True, False])
def test_keys_of_archived_instants_that_readers_do_not_see_stay_where_they_are(
    table: TestTable, knows: bool, cause: str
) -> None:
    """Because a request came late, or each commit on the timeline has a savepoint. Readers will see them again: a new
    group for such a key would double it.
    """
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    first = table.timeline().completed_commits[0].request_time
    fold(covered, table)
    before = group_of(covered, "a")
    if not knows:
        forget_state(table.storage)
        covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    archive(table)
    kept = commit(table, CommitMetadata())
    if cause == "a savepoint":
        table.storage.create(path_of(Instant(kept, SAVEPOINT, State.COMPLETED, next_time(table))), b"")
    else:
        create_requested(table.storage, first if cause == "its own request" else str(int(first) - 1000))
    assert not table.timeline().is_committed(first)
    fold(covered, table)
    assert group_of(covered, "a") == before is not None


def test_a_lost_run_is_stored_again(table: TestTable) -> None:
    covered = CoveredTable(table.storage, StateRules(report_duplicates=False))
    fold(covered, table)
    (digest, *_) = covered.index.manifest.runs
    table.storage.delete(f".hoodie/.bucketingest/state/run/{digest}")
    covered.repair()
    assert covered.has_runs(covered.index.manifest.runs)
