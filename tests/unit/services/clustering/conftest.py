"""A table with an index with a state, whose micro-batches left small file groups, some with log files."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import dataclass
from typing import Any

import pytest

from bucketingest.storage import Storage
from support.tables.services.clustered import current_groups
from support.tables.services.snapshot import doubled_base_files, snapshot
from support.tables.state.tables import groups_of_keys, state_table
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


@dataclass
class Scattered:
    """Three micro-batches: three file groups in eu, one of them with a log file, and one in us."""

    table: TestTable
    rows: dict[str, dict[str, Any]]

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def groups(self) -> dict[str, set[str]]:
        return current_groups(self.storage)

    def unchanged(self) -> None:
        """Its rows are what they were, each key in one file group, and nothing is left over."""
        assert snapshot(self.storage) == self.rows
        assert doubled_base_files(self.storage) == []
        assert self.table.leftovers() == []
        assert all(len(groups) == 1 for groups in groups_of_keys(self.table).values())

    def goes_on(self) -> None:
        """The pipeline updates keys of merged groups, and inserts one."""
        self.table.attempt().run(offsets(8, 11), [row(key, amount=7, at=50) for key in ("k0", "k2", "new")])
        rows = snapshot(self.storage)
        assert rows.keys() == {*self.rows, "new"}
        assert {rows["k0"]["amount"], rows["k2"]["amount"]} == {7}
        assert all(len(groups) == 1 for groups in groups_of_keys(self.table).values())


def scattered() -> Scattered:
    table = state_table()
    attempt = table.attempt()
    attempt.run(offsets(0, 3), [row("k0", at=1), row("k1", at=1), row("u0", region="us", at=1)])
    attempt.run(offsets(3, 6), [row("k0", at=2), row("k2", at=2), row("k3", at=2)])
    attempt.run(offsets(6, 8), [row("k4", at=3), row("k2", at=3)])
    return Scattered(table, snapshot(table.storage))


@pytest.fixture(autouse=True)
def local_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def given() -> Scattered:
    return scattered()
