"""A table whose properties are missing is never made anew: a Hudi writer may just be replacing them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bucketingest.hudi.errors import InvalidTable, TableNotFound
from bucketingest.hudi.naming import PROPERTIES_BACKUP, PROPERTIES_PATH, TIMELINE_DIRECTORY
from bucketingest.hudi.table import table as table_module
from bucketingest.hudi.table.table import TableDefinition, create_table, load_table
from bucketingest.storage import Storage, open_storage
from bucketingest.storage.interface import Data
from support.storage.passing_storage import PassingStorage
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

OTHER = TableDefinition("orders", ("other",), buckets=64)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens between two looks, one after the other; after the last one the time to wait is over."""
    left: list[Callable[[], None]] = []

    def pause(_: float) -> None:
        if left:
            left.pop(0)()
        else:
            monkeypatch.setattr(table_module, "forward_seconds", lambda: 1e12)

    monkeypatch.setattr(table_module, "sleep", pause)
    return left


@pytest.fixture
def storage() -> Storage:
    """A table with an instant."""
    table = TestTable()
    table.attempt().run(offsets(0, 1), [row("k0")])
    return table.storage


def test_properties_that_a_writer_of_hudis_replaces_are_waited_for(
    storage: Storage, looks: list[Callable[[], None]]
) -> None:
    content = storage.get(PROPERTIES_PATH)
    storage.create(PROPERTIES_BACKUP, content)
    storage.delete(PROPERTIES_PATH)
    changed = content + b"hoodie.table.metadata.partitions=files\n"
    looks += [lambda: storage.put(PROPERTIES_PATH, changed[:10]), lambda: storage.put(PROPERTIES_PATH, changed)]
    assert create_table(storage, OTHER).properties["hoodie.table.metadata.partitions"] == "files"
    assert looks == []


@pytest.mark.usefixtures("looks")
def test_a_writer_of_hudis_that_died_meanwhile_is_told(storage: Storage) -> None:
    storage.create(PROPERTIES_BACKUP, storage.get(PROPERTIES_PATH))
    storage.delete(PROPERTIES_PATH)
    with pytest.raises(InvalidTable, match=r"properties\.backup is there.* copy the backup to the file"):
        create_table(storage, OTHER)
    assert not storage.exists(PROPERTIES_PATH)


@pytest.mark.usefixtures("looks")
def test_a_table_with_instants_and_without_properties_gets_no_new_ones(storage: Storage) -> None:
    storage.delete(PROPERTIES_PATH)
    with pytest.raises(InvalidTable, match=r"a table without its properties.* Restore the file"):
        create_table(storage, OTHER)
    assert not storage.exists(PROPERTIES_PATH)


@pytest.mark.usefixtures("looks")
def test_an_instant_of_an_older_table_version_counts_too() -> None:
    storage = open_storage("memory://an-old-table")
    storage.create(".hoodie/20260101000000000.deltacommit", b"{}")
    with pytest.raises(InvalidTable, match="a table without its properties"):
        load_table(storage)


def test_a_place_with_nothing_but_our_own_lease_is_free() -> None:
    storage = open_storage("memory://a-new-place")
    storage.create(".hoodie/.bucketingest/lease/000000000001", b"{}")
    with pytest.raises(TableNotFound):
        load_table(storage)
    assert create_table(storage, OTHER).bucket_count == 64


class _PausedStorage(PassingStorage):
    """Its first request to create comes when another job has made the table, and a Hudi writer replaces its file."""

    def create(self, path: str, data: Data) -> None:
        if not self._inner.exists(PROPERTIES_BACKUP):
            self._inner.create(PROPERTIES_BACKUP, b"hoodie.table.name=orders\n")
            self._inner.create(f"{TIMELINE_DIRECTORY}/.keep", b"")
        super().create(path, data)


@pytest.mark.usefixtures("looks")
def test_a_job_that_was_paused_after_its_look_at_a_free_place_looks_again() -> None:
    storage = open_storage("memory://a-place-that-was-free")
    with pytest.raises(InvalidTable, match=r"properties\.backup is there"):
        create_table(_PausedStorage(storage), OTHER)
    assert not storage.exists(PROPERTIES_PATH)


def test_a_torn_file_without_a_backup_is_refused_at_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(table_module, "sleep", fail)
    storage.put(PROPERTIES_PATH, b"hoodie.table.name=orders\n")
    with pytest.raises(InvalidTable, match="the file is torn"):
        load_table(storage)
