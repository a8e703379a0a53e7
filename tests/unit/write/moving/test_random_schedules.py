"""Random schedules of a table in which a key is in one partition only: micro-batches, crashes at any change,
compactions, clusterings, lost states. After each step a reader shows each key once, with its newest
row.
"""

from __future__ import annotations

import pathlib
import random
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from bucketingest.index.state.store import forget_state
from bucketingest.write.plan import DELETE_COLUMN
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.services.clustered import cluster, planned
from support.tables.services.compactions import compact
from support.tables.state.tables import places, state_table
from support.tables.table_runs import offsets
from support.tables.write_plans import row

REGIONS = ("eu", "us", "asia")
Rows = Sequence[dict[str, Any]]


class Latest(NamedTuple):
    """What is known of a key: its newest row, or, without a region, its newest delete."""

    at: int
    region: str | None
    amount: int


class Model:
    """What the table must show: of each key the newest row by ordering value, of equal ones the latest."""

    def __init__(self) -> None:
        self.keys: dict[str, Latest] = {}

    def apply(self, rows: Rows) -> None:
        winners: dict[str, Latest] = {}
        for each in rows:
            region = None if each.get(DELETE_COLUMN) else each["region"]
            before = winners.get(each["id"])
            if before is None or each["at"] >= before.at:
                winners[each["id"]] = Latest(each["at"], region, each["amount"])
        for key, winner in winners.items():
            before = self.keys.get(key)
            if before is None and winner.region is None:
                continue  # there is nothing to delete
            if before is None or winner.at >= before.at:
                self.keys[key] = winner

    def compact(self) -> None:
        self.keys = {key: each for key, each in self.keys.items() if each.region is not None}

    @property
    def shown(self) -> dict[str, tuple[str, int]]:
        return {key: (each.region, each.amount) for key, each in self.keys.items() if each.region is not None}


class Schedule:
    """Random steps on one table: micro-batches, crashes in the middle of them, compactions, lost states."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.table = state_table(is_global=True)
        self.model = Model()
        self.offset = 0
        self.attempt = self.table.attempt()

    def run(self, steps: int) -> None:
        acts = [self.batch] * 6 + [self.crash] * 3 + [self.compact, self.merge, self.restart, self.lose_state]
        for _ in range(steps):
            self.chance.choice(acts)()
            assert places(self.table) == self.model.shown

    def rows(self) -> list[dict[str, Any]]:
        chance = self.chance
        return [
            row(
                f"k{chance.randrange(8)}",
                region=chance.choice(REGIONS),
                amount=chance.randrange(1000),
                at=max(0, self.offset + chance.randint(-6, 2)),
                deleted=chance.random() < 0.15,
            )
            for _ in range(chance.randint(1, 8))
        ]

    def batch(self) -> None:
        rows = self.rows()
        self.attempt.run(offsets(self.offset, self.offset + len(rows)), rows)
        self.offset += len(rows)
        self.model.apply(rows)

    def crash(self) -> None:
        """Die at any change; the next attempt goes on with the same rows."""
        rows = self.rows()
        batch = (offsets(self.offset, self.offset + len(rows)), rows)
        storage = CrashingStorage(
            self.table.storage, self.chance.randrange(60), after_effect=self.chance.random() < 0.5
        )
        try:
            self.table.attempt(storage).go_on(batch)
        except Crash:
            if self.chance.random() < 0.3:
                forget_state(self.table.storage)
        self.restart()
        self.attempt.go_on(batch)
        self.offset += len(rows)
        self.model.apply(rows)

    def compact(self) -> None:
        compact(self.table.storage)
        self.model.compact()

    def merge(self) -> None:
        if planned(self.table.storage) is not None:
            cluster(self.table.storage)
        self.compact()  # deletes are forgotten in merged groups: now everywhere

    def restart(self) -> None:
        self.attempt = self.table.attempt()

    def lose_state(self) -> None:
        forget_state(self.table.storage)
        self.restart()


@pytest.mark.parametrize("seed", range(10))
def test_each_key_is_in_one_partition_with_its_newest_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Schedule(seed).run(14)
