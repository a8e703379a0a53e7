"""Which files have the rows that a truncate deletes, as a micro-batch finds them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.storage.interface import Level, ObjectInfo
from bucketingest.storage.local.storage import LocalStorage
from bucketingest.write.rows.emptied import slices_to_empty
from support.tables.local_writer import PIPELINE, LocalWriter

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string())])


class Lagging(LocalStorage):
    """Its listings show no data file yet."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        yield from super().list(prefix) if prefix.startswith(".hoodie") else ()

    def list_level(self, prefix: str = "") -> Level:
        return super().list_level(prefix) if prefix.startswith(".hoodie") else Level()


@pytest.fixture
def two_instants(tmp_path: Path) -> str:
    """A table with a completed instant of one row, and an open one with three micro-batches of one; returns the open
    one's time.
    """
    definition = TableDefinition("t", ("id",), ("region",), buckets=2)
    LocalWriter(tmp_path, definition, SCHEMA).commit(rows("old"))
    writer = LocalWriter(tmp_path, definition, SCHEMA, commit_interval=timedelta(days=1))
    times = {writer.commit(rows(name)).instant_time for name in ("first", "second", "third")}
    (time,) = times
    assert time is not None
    return time


def rows(*names: str) -> pa.Table:
    return pa.table([pa.array(names), pa.array(["eu"] * len(names))], schema=SCHEMA)


def keys(storage: LocalStorage, instant_time: str, sequence: int) -> list[str]:
    slices = slices_to_empty(storage, PIPELINE, instant_time, sequence)
    return sorted(key for each in slices for keys in keys_of_rows(storage, each) for key in keys.to_pylist())


@pytest.mark.parametrize("kind", [LocalStorage, Lagging])
@pytest.mark.parametrize(("sequence", "own"), [(1, []), (2, ["first"]), (3, ["first", "second"])])
def test_all_commits_and_of_its_own_instant_what_earlier_micro_batches_wrote(
    tmp_path: Path, two_instants: str, kind: type[LocalStorage], sequence: int, own: list[str]
) -> None:
    found = keys(kind(str(tmp_path)), two_instants, sequence)
    assert found == sorted(["old", *own])
