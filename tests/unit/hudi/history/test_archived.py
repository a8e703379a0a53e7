"""The archived history, as Hudi wrote it."""

from pathlib import Path

import pytest

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.history.archived import archived_instants, archived_times
from bucketingest.storage.factory import open_storage
from support.tables.fixtures import unpack_fixture


def test_archived_instants_of_hudis_history_are_read(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))
    instants = archived_instants(storage)
    assert len(instants) == 13
    assert {i.action for i in instants} == {"deltacommit"}
    assert instants[0].request_time == "20261121091954145"
    assert all((i.completion_time or "") > i.request_time for i in instants)
    assert archived_times(storage) == {
        "20261121091954145", "20261121091954385", "20261121091954389",
        "20261121091954393", "20261121091954397", "20261121091956669",
    }  # fmt: skip


def test_one_archived_instant_is_found_by_its_time(tmp_path: Path) -> None:
    storage = open_storage(str(unpack_fixture("py_then_java_archived", tmp_path)))
    assert [i.request_time for i in archived_instants(storage, "20261121091954366")] == ["20261121091954366"]
    assert archived_instants(storage, "20261121091954367") == ()


def test_a_table_that_was_never_archived_has_no_history(tmp_path: Path) -> None:
    assert archived_instants(open_storage(str(unpack_fixture("java_v9_avro", tmp_path)))) == ()


def test_without_the_version_file_the_newest_manifest_counts(tmp_path: Path) -> None:
    root = unpack_fixture("py_then_java_archived", tmp_path)
    (root / ".hoodie/timeline/history/_version_").unlink()
    assert len(archived_instants(open_storage(str(root)))) == 13


def test_a_lost_manifest_is_reported(tmp_path: Path) -> None:
    root = unpack_fixture("py_then_java_archived", tmp_path)
    (root / ".hoodie/timeline/history/manifest_3").unlink()
    with pytest.raises(InvalidTable, match="manifest_3"):
        archived_instants(open_storage(str(root)))
