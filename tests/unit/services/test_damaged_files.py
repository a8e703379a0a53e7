"""File groups that lack a file are neither compacted, merged nor cleaned; their commits stay, and a job says so."""

from __future__ import annotations

import logging
import pathlib
import tempfile
from contextlib import nullcontext
from datetime import timedelta

import pytest

from bucketingest.hudi.damage.look import damage_of_table
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import FileGroup, Group, load_file_view
from bucketingest.hudi.table.table import InsertMode
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean.execute import choose_now
from bucketingest.services.clean_and_archive import archive_old
from bucketingest.services.clustering.propose import propose_clustering
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.propose import TableNow, propose
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage
from bucketingest.write.instants.taken_out import overtaken
from support.tables.other_writers import archive, finish_clean, plan_clean
from support.tables.services.clustered import PAIRS, cluster
from support.tables.services.compactions import ALL, compact, holder, written
from support.tables.services.serving_job import Job
from support.tables.state.tables import BOTH, FIRST, SECOND, check, state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

AT_ONCE = ArchiveRules(keep_min=1, min_age=timedelta(0))


def groups(storage: Storage) -> list[FileGroup]:
    return list(load_file_view(storage, Timeline.load(storage)).groups)


def lose_a_log(storage: Storage) -> tuple[str, Group]:
    """Of a file group that has others."""
    found = next(each for each in groups(storage) if each.latest is not None and len(each.latest.log_files) > 1)
    assert found.latest is not None
    path = found.latest.log_files[-1].path
    storage.delete(path)
    return path, (found.partition_path, found.file_id)


@pytest.mark.parametrize("base_files", [False, True], ids=["logs only", "base files"])
def test_a_file_group_that_lacks_a_file_is_not_compacted_unless_the_loss_is_accepted(base_files: bool) -> None:
    storage = written(base_files=base_files).storage
    path, group = lose_a_log(storage)
    look = propose(storage, ALL, utc_now())
    assert [(each.file.path, each.group) for each in look.damaged] == [(path, group)]
    assert look.proposal is not None
    assert group not in {each.operation.group for each in look.proposal.due}
    assert compact(storage) == [End.COMPLETED]
    assert group in {(each.partition_path, each.file_id) for each in groups(storage) if each.slices[-1].log_files}
    assert propose(storage, ALL, utc_now()).proposal is None
    (ended,) = compact_now(storage, holder(storage), ALL, utc_now, accept_damage=True)
    assert (ended.end, ended.file_groups) == (End.COMPLETED, 1)
    assert propose(storage, ALL, utc_now()).damaged == ()


def test_small_file_groups_that_lack_a_file_are_not_merged() -> None:
    table = state_table()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}", at=number)])
    attempt.run(offsets(3, 4), [row("k0", at=4)])
    table.attempt().run(offsets(4, 5), [row("k0", at=5)])
    path, group = lose_a_log(table.storage)
    found = TableNow.load(table.storage)
    assert found is not None
    look = propose_clustering(table.storage, found, PAIRS, size_max=1024**3)
    assert [each.file.path for each in look.damaged] == [path]
    assert look.plan is not None
    assert group not in look.plan.replaced


def test_a_cleaned_file_is_no_damage_though_what_replaced_its_file_group_is_archived_before_its_commit() -> None:
    """A scheduler without the lock takes the time of its clustering, then looks: it merges what came in between."""
    table = state_table()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}", at=number)])
    old = {file.path for group in groups(table.storage) for each in group.slices for file in each.files}
    cluster(table.storage)
    table.storage.delete_many(sorted(old))
    assert damage_of_table(table.storage, overtaken) == ()
    archive(table, only=REPLACE_COMMIT)
    assert damage_of_table(table.storage, overtaken) == ()


def test_the_slice_before_a_base_file_that_was_cut_is_not_cleaned() -> None:
    storage = written(base_files=True).storage
    assert compact(storage) == [End.COMPLETED]
    nothing = Retention(versions=1)
    before = choose_now(Guarded(storage), nothing)
    assert before.plan is not None
    cut = next(each for each in groups(storage) if (each.partition_path, each.file_id) in before.plan.groups)
    assert cut.latest is not None
    assert cut.latest.base_file is not None
    path = cut.latest.base_file.path
    storage.put(path, storage.get(path)[:100])
    choice = choose_now(Guarded(storage), nothing)
    assert (cut.partition_path, cut.file_id) not in (frozenset() if choice.plan is None else choice.plan.groups)
    assert [each.why for each in choice.kept if each.file_id == cut.file_id] == [
        "a file of its file group's newest slice is gone or cut"
    ] * (len(cut.slices) - 1)


def test_the_commit_that_names_a_lost_file_stays_on_the_timeline() -> None:
    table = TestTable()
    attempt = table.attempt()
    for number in range(6):
        attempt.run(offsets(number, number + 1), [row(f"k{number}", at=number)])
    lost = min(each.latest.log_files[0].instant for each in groups(table.storage) if each.latest is not None)
    for group in groups(table.storage):
        for file in group.slices[0].log_files:
            if file.instant == lost:
                table.storage.delete(file.path)
    guarded = Guarded(table.storage, nullcontext, lambda: None)
    results = archive_old(guarded, AT_ONCE)
    assert all(instant.request_time != lost for each in results for instant in each.instants)
    assert lost in {each.request_time for each in table.timeline().completed}
    assert any("is damaged" in pin.why for pin in results[-1].pins)


@pytest.mark.parametrize("inserts", ["base", "log"])
def test_files_that_another_writers_clean_deleted_and_whose_rows_came_again_are_of_no_concern(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, inserts: InsertMode
) -> None:
    """Empty files keep their names, shorter than the commits say."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table(inserts=inserts)
    storage = table.storage
    table.attempt().run(offsets(0, 6), FIRST)
    clean = plan_clean(table, "eu", "us")
    storage.delete_many([info.path for region in ("eu", "us") for info in storage.list(region)])
    finish_clean(table, clean)
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)
    assert damage_of_table(storage, lambda _: ()), "without the pipeline's marks"
    assert damage_of_table(storage, overtaken) == ()
    assert propose(storage, ALL, utc_now()).damaged == ()
    assert compact(storage) == [End.COMPLETED]
    assert not any(group.latest is not None and group.latest.log_files for group in groups(storage))
    pins = archive_old(Guarded(storage, nullcontext, lambda: None), AT_ONCE)[-1].pins
    assert not [pin.why for pin in pins if "is damaged" in pin.why]
    check(table, BOTH)


def test_a_running_job_says_once_what_is_lost_and_that_it_was_mended(caplog: pytest.LogCaptureFixture) -> None:
    job = Job(tidies=True)
    storage = job.table.storage
    with TableLease.acquire(storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        job.lease_id = lease.lease_id
        file = next(each.slices[-1].files[-1] for each in groups(storage))
        content = storage.get(file.path)
        storage.delete(file.path)
        services = job.services()
        with caplog.at_level(logging.ERROR):
            job.pass_time(services, looks=70)
        assert [each.file for each in job.reports[-1].damage] == [file.path]
        assert job.reports[-1].damage[0].instant == file.instant
        assert "it is gone; its commit wrote" in job.reports[-1].damage[0].problem
        assert [each.message for each in caplog.records].count(
            "data file damaged: its file group is neither compacted nor cleaned"
        ) == 1
        storage.create(file.path, content)
        job.pass_time(services, looks=40)
        assert job.reports[-1].damage == ()
