"""Taking Hudi's metadata table off a table: under the lock, once, and never from under another writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.table.metadata_table import DROPPED_AT, switched_on
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested
from bucketingest.services.metadata_table import MetadataTableDrop
from bucketingest.storage import Storage, StorageUnavailable
from support.storage.flaky_storage import FlakyStorage
from support.tables.other_writers import next_time, schedule_compaction, switch_on_metadata_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

FILES = [
    ".hoodie/metadata/.hoodie/hoodie.properties",
    ".hoodie/metadata/files/x.hfile",
    ".hoodie/.index_defs/index.json",
]
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@dataclass
class World:
    """A table with Hudi's metadata table, a lock, and a clock."""

    table: TestTable = field(default_factory=TestTable)
    now: datetime = NOW
    locked: int = 0

    def __post_init__(self) -> None:
        self.table.attempt().run(offsets(0, 1), [row("k0")])
        self.switch_on()

    def switch_on(self) -> None:
        switch_on_metadata_table(self.table)
        for path in FILES:
            self.table.storage.put(path, b"x")

    @contextmanager
    def lock(self) -> Iterator[None]:
        self.locked += 1
        yield

    def drop(self, storage: Storage | None = None) -> None:
        MetadataTableDrop(storage or self.table.storage, self.lock, lambda: self.now)()

    def start(self) -> None:
        MetadataTableDrop(self.table.storage, self.lock, lambda: self.now).at_start()

    @property
    def files(self) -> list[str]:
        return [path for path in FILES if self.table.storage.exists(path)]

    @property
    def properties(self) -> dict[str, str]:
        return dict(load_table(self.table.storage).properties)


def test_it_is_switched_off_and_its_files_are_deleted_under_the_lock() -> None:
    world = World()
    before = world.properties
    world.drop()
    assert world.files == []
    assert world.locked == 1
    assert not switched_on(world.properties)
    kept = {key: value for key, value in before.items() if not key.startswith("hoodie.table.metadata")}
    assert world.properties == kept | {DROPPED_AT: "20261122120000000"}


def test_a_table_without_it_is_left_as_it_is_and_not_locked() -> None:
    table = TestTable()
    table.attempt()
    before = table.storage.get(PROPERTIES_PATH)
    MetadataTableDrop(table.storage, lambda: pytest.fail("locked"))()
    assert table.storage.get(PROPERTIES_PATH) == before


def test_it_is_switched_off_before_its_files_go_and_a_crash_in_between_is_made_good() -> None:
    """With the files gone and the property there, readers would see an empty table."""
    world = World()
    deletes = FlakyStorage(world.table.storage, lambda path: path.startswith(".hoodie/metadata"))
    with pytest.raises(StorageUnavailable, match="503"):
        world.drop(deletes)
    assert not switched_on(world.properties)
    assert world.files
    world.start()
    assert world.files == []


def test_files_that_another_writer_writes_after_the_drop_are_deleted_at_the_next_start_only() -> None:
    """Hudi writes the files of a new metadata table before the property: a commit must not delete them."""
    world = World()
    world.drop()
    world.table.storage.put(FILES[0], b"x")
    world.drop()
    assert world.files == FILES[:1]
    world.start()
    assert world.files == []
    assert world.locked == 2


def test_a_start_leaves_the_files_alone_while_another_writer_is_at_work() -> None:
    world = World()
    world.drop()
    world.table.storage.put(FILES[0], b"x")
    create_requested(world.table.storage, next_time(world.table))
    world.start()
    assert world.files == FILES[:1]


def test_a_start_leaves_a_table_that_was_never_dropped_alone() -> None:
    table = TestTable()
    table.attempt()
    table.storage.put(FILES[0], b"x")
    MetadataTableDrop(table.storage, lambda: pytest.fail("locked")).at_start()
    assert table.storage.exists(FILES[0])


@pytest.mark.parametrize(("after", "refused"), [(timedelta(minutes=59), True), (timedelta(hours=1), False)])
def test_one_that_is_on_again_within_an_hour_is_refused_with_the_option_to_set(after: timedelta, refused: bool) -> None:
    world = World()
    world.drop()
    world.switch_on()
    world.now += after
    if not refused:
        world.drop()
        assert not switched_on(world.properties)
        return
    with pytest.raises(UnsupportedTable, match=r"hoodie\.metadata\.enable=false"):
        world.drop()
    assert switched_on(world.properties)
    assert world.files == FILES


def test_another_writers_open_instant_is_in_the_way_and_is_named() -> None:
    world = World()
    time = next_time(world.table)
    create_requested(world.table.storage, time)
    create_inflight(world.table.storage, time)
    with pytest.raises(UnsupportedTable, match=f"{time}.deltacommit.inflight is pending"):
        world.drop()
    assert world.files == FILES


def test_a_pending_compaction_is_in_the_way() -> None:
    world = World()
    time = schedule_compaction(world.table)
    with pytest.raises(UnsupportedTable, match=f"{time}.compaction.requested is pending"):
        world.drop()


def test_properties_that_hudi_is_just_replacing_are_not_touched() -> None:
    world = World()
    world.table.storage.put(f"{PROPERTIES_PATH}.backup", b"x")
    before = world.table.storage.get(PROPERTIES_PATH)
    with pytest.raises(UnsupportedTable, match="another writer changes"):
        world.drop()
    assert world.table.storage.get(PROPERTIES_PATH) == before


def test_a_job_with_drop_takes_the_table_over_and_drops_it_again_around_a_commit() -> None:
    """It is switched on while the job writes: its own open instant is not in the way."""
    world = World()

    def drop(_: Storage) -> None:
        world.drop()

    attempt = world.table.attempt(drop_metadata_table=drop)
    assert not switched_on(world.properties)
    world.now += timedelta(hours=2)
    attempt.run(offsets(1, 2), [row("k1")], world.switch_on)
    assert not switched_on(world.properties)
    assert world.table.visible_keys() == ["k0", "k1"]


def test_a_table_that_is_refused_for_another_reason_keeps_it() -> None:
    world = World()
    world.table.definition = TestTable().definition
    other = TestTable(of=type(world.table.definition)("other", ("id",), buckets=2))
    other.storage = world.table.storage
    with pytest.raises(UnsupportedTable):
        other.attempt(drop_metadata_table=lambda _: pytest.fail("dropped"))
    assert switched_on(world.properties)
