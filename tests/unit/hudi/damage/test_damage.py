"""Data files that were deleted or cut by hand are found, and nothing that a clean or a compaction took away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bucketingest.hudi.damage.look import BYTES_MAX, DamageLook, look_for_damage
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import DataFile, load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage
from support.tables.services.compactions import Written, compact, written


def set_of_none(_: Storage) -> set[str]:
    """No pipeline has marked an instant."""
    return set()


def look(storage: Storage, bytes_max: int = BYTES_MAX) -> DamageLook:
    timeline = Timeline.load(storage)
    view = load_file_view(storage, timeline)
    replaced = replaced_file_groups(storage, timeline)
    return look_for_damage(storage, timeline, view, replaced, set_of_none, bytes_max=bytes_max)


def files(storage: Storage) -> list[DataFile]:
    """Those of the newest slices, base files first."""
    view = load_file_view(storage, Timeline.load(storage))
    found = [file for group in view.groups if group.latest is not None for file in group.latest.files]
    return sorted(found, key=lambda file: str(file.name).startswith("."))


def delete(storage: Storage, path: str) -> None:
    storage.delete(path)


def cut(storage: Storage, path: str) -> None:
    storage.put(path, storage.get(path)[:-1])


@pytest.fixture(params=[False, True], ids=["logs only", "base files"])
def given(request: pytest.FixtureRequest) -> Written:
    return written(base_files=request.param)


def test_a_whole_table_has_no_damage(given: Written) -> None:
    found = look(given.storage)
    assert found.damaged == ()
    assert found.since == Timeline.load(given.storage).completed_commits[0].completion_time


@pytest.mark.parametrize("harm", [delete, cut], ids=["deleted", "cut"])
def test_each_file_of_a_newest_slice_is_missed(given: Written, harm: Callable[[Storage, str], None]) -> None:
    storage = given.storage
    for file in files(storage):
        content = storage.get(file.path)
        harm(storage, file.path)
        (damaged,) = look(storage).damaged
        assert (damaged.file.path, damaged.group) == (file.path, (file.partition_path, file.name.file_id))
        assert (damaged.file.instant, damaged.file.size) == (file.instant, len(content))
        assert damaged.found == (len(content) - 1 if storage.exists(file.path) else None)
        assert damaged.file.rows > 0
        storage.put(file.path, content)
        assert look(storage).damaged == ()


def test_what_is_superseded_may_be_gone(given: Written) -> None:
    storage = given.storage
    old = files(storage)
    assert compact(storage) == [End.COMPLETED]
    for file in old:
        if file not in files(storage):
            storage.delete(file.path)
    assert look(storage).damaged == ()


def test_a_base_file_that_is_gone_does_not_make_the_slice_before_it_the_newest() -> None:
    given = written(base_files=True)
    storage = given.storage
    assert compact(storage) == [End.COMPLETED]
    base = next(file for file in files(storage) if len(slices_of(storage, file)) == 2)
    storage.delete(base.path)
    assert [each.file.path for each in look(storage).damaged] == [base.path]


def slices_of(storage: Storage, file: DataFile) -> tuple[object, ...]:
    view = load_file_view(storage, Timeline.load(storage))
    return view.partitions[file.partition_path][file.name.file_id].slices


def test_what_another_process_cleans_between_the_look_at_the_timeline_and_at_the_files_is_not_missed() -> None:
    storage = written(base_files=True).storage
    before = Timeline.load(storage)
    assert compact(storage) == [End.COMPLETED]
    clean(Guarded(storage), Retention(versions=1))
    view = load_file_view(storage, before)
    assert look_for_damage(storage, before, view, frozenset(), set_of_none).damaged == ()


def test_only_the_newest_commits_are_read_within_the_limit(given: Written) -> None:
    storage = given.storage
    assert look(storage, bytes_max=1).since == Timeline.load(storage).completed_commits[-1].completion_time
