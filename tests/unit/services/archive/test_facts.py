"""What the table's files say to an archival: positions, the schema, replaced file groups."""

from __future__ import annotations

import pytest

from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveFacts
from bucketingest.services.archive.facts import read_facts
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.commit_content import RANGES
from bucketingest.write.pipeline_names import PIPELINE
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import replace_file_groups
from support.tables.services.old_timelines import at, finish, finished, old_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

WRITES = [at(minutes) for minutes in (90, 80, 70, 60, 50)]


def position(pipeline: str) -> dict[str, str]:
    return {PIPELINE: pipeline, RANGES: "[]"}


@pytest.fixture
def storage() -> Storage:
    """Two pipelines, one idle since the second instant, and an instant of another writer."""
    storage = old_table([])
    for time, extra in zip(WRITES, [position("a"), position("b"), position("a"), {}, position("a")], strict=True):
        finish(storage, time, **extra)
    return storage


def facts(storage: Storage, old: int, *retired: str) -> ArchiveFacts:
    timeline = Timeline.load(storage)
    return read_facts(storage, timeline, timeline.completed_commits[:old], retired)


def test_the_newest_position_of_each_pipeline_that_has_old_instants_is_found(storage: Storage) -> None:
    assert facts(storage, 3).positions == {"a": WRITES[4], "b": WRITES[1]}
    assert facts(storage, 1).positions == {"a": WRITES[4]}
    assert facts(storage, 3, "b").positions == {"a": WRITES[4]}
    assert facts(storage, 3, "a", "b").positions == {}


def test_a_position_is_that_of_the_newest_request(storage: Storage) -> None:
    storage.delete(f".hoodie/timeline/{finished(WRITES[4])}")
    assert facts(storage, 1).positions == {"a": WRITES[2]}


def test_a_commit_without_a_source_range_carries_no_position(storage: Storage) -> None:
    finish(storage, at(40), **{PIPELINE: "a"})
    assert facts(storage, 1).positions == {"a": WRITES[4]}


def test_instants_are_opened_only_as_far_as_needed(storage: Storage) -> None:
    opened: list[str] = []

    class Counting(PassingStorage):
        def get(self, path: str) -> bytes:
            opened.append(path.rpartition("/")[2])
            return super().get(path)

    finish(storage, at(40), schema="{}", **position("a"))
    finish(storage, at(30), schema="{}")
    facts(Counting(storage), 1)
    # The old one, then newer ones until pipeline a is found; then the newest for its schema, twice: two of its fields.
    assert [name[:17] for name in opened] == [WRITES[0], at(30), at(40), at(30)]


def test_the_schema_is_that_of_the_newest_write_that_has_one(storage: Storage) -> None:
    assert facts(storage, 1).schema is None
    finish(storage, at(45), schema="{}")
    finish(storage, at(40))
    assert facts(storage, 1).schema == at(45)


def test_replaced_file_groups_and_the_files_there_are_found() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 1), [row("k0")])
    (group,) = facts(table.storage, 1).view.groups
    time = replace_file_groups(table, {group.partition_path: [group.file_id]})
    assert facts(table.storage, 1).replaced == {time: {(group.partition_path, group.file_id)}}


def test_an_instant_that_is_archived_meanwhile_is_reported(storage: Storage) -> None:
    timeline = Timeline.load(storage)
    storage.delete(f".hoodie/timeline/{finished(WRITES[0])}")
    with pytest.raises(NotFound):
        read_facts(storage, timeline, timeline.completed_commits[:1], ())


def test_a_real_pipelines_position_is_found() -> None:
    table = TestTable()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}")])
    newest = table.timeline().completed_commits[-1].request_time
    found = facts(table.storage, 2)
    assert found.positions == {"shop/orders": newest}
    assert found.schema == newest


def test_a_compaction_carries_no_position() -> None:
    storage = old_table(WRITES[:2])
    finish(storage, at(10), COMMIT)
    assert facts(storage, 2).positions == {}
