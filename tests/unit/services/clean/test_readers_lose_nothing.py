"""Random tables, judged by a model of readers that knows none of the cleaner's rules."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.services.clean.choose import Retention
from support.tables.services.named_slices import FILE_ID, NamedTable, ago

RETAIN = 60.0
LENGTH = 300.0


@dataclass
class Compaction:
    requested: float
    put: float
    rows: frozenset[str]
    """Log files whose rows are in the base file."""

    @property
    def file(self) -> str:
        return str(BaseFileName(FILE_ID, ago(LENGTH - self.requested)))


@dataclass
class Model:
    """What was written, in minutes since the beginning; now is `LENGTH`."""

    writes: dict[str, float] = field(default_factory=dict)
    """Log file -> when it completed."""
    compactions: list[Compaction] = field(default_factory=list)

    def snapshot(self, moment: float) -> set[str]:
        """Files that a reader opens which looked at the table at this moment."""
        seen = [each for each in self.compactions if each.put <= moment]
        return self._slice(seen[-1] if seen else None, moment)

    def time_travel(self, moment: float) -> set[str]:
        """Files that a reader opens now which asks for this moment."""
        before = [each for each in self.compactions if each.requested <= moment]
        return self._slice(before[-1] if before else None, moment)

    def _slice(self, base: Compaction | None, moment: float) -> set[str]:
        first = -1.0 if base is None else base.requested
        logs = {log for log, done in self.writes.items() if first <= done <= moment}
        return logs if base is None else {base.file, *logs}

    def rows(self, files: set[str]) -> set[str]:
        """The rows in these files: one per log file, which has its name."""
        merged = (each.rows for each in self.compactions if each.file in files)
        return {log for log in self.writes if log in files}.union(*merged)

    @property
    def files(self) -> set[str]:
        return {*self.writes, *(each.file for each in self.compactions)}

    @property
    def moments(self) -> Iterator[float]:
        """All at which a reader could see something new, within the time to retain."""
        times = [*self.writes.values(), *(time for each in self.compactions for time in (each.requested, each.put))]
        return (time for time in (*times, LENGTH - RETAIN, LENGTH) if LENGTH - RETAIN <= time <= LENGTH)


def history(seed: int) -> tuple[NamedTable, Model]:
    """A file group whose writes and compactions overlap; some plans miss a log file, some completed files come late."""
    dice = random.Random(seed)
    table, model = NamedTable(), Model()
    free = 0.0  # a group has one pending compaction at a time
    for requested in sorted(dice.sample([tenth / 10 for tenth in range(int(LENGTH * 10) - 400)], dice.randint(3, 40))):
        if model.writes and requested > free and dice.random() < 0.4:
            free = _compact(dice, table, model, requested)
        else:
            done = requested + dice.choice([0.05, 0.05, dice.uniform(0, 30)])
            time = table.write(LENGTH - requested, done=LENGTH - done)
            model.writes[str(LogFileName(FILE_ID, time, 1))] = done
    return table, model


def _compact(dice: random.Random, table: NamedTable, model: Model, requested: float) -> float:
    newest = model.compactions[-1] if model.compactions else None
    visible = {log for log in model.writes if (newest is None or model.writes[log] >= newest.requested)}
    seen = sorted(log for log in visible if model.writes[log] < requested)
    missed = {dice.choice(seen)} if seen and dice.random() < 0.15 else set()
    done = min(requested + dice.choice([0.05, dice.uniform(0, 40)]), LENGTH)
    put = min(done + dice.choice([0.0, 0.0, dice.uniform(0, 20)]), LENGTH)
    table.compact(
        LENGTH - requested,
        done=LENGTH - done,
        put=LENGTH - put,
        without={LogFileName.parse(log).instant for log in missed},
    )
    before = frozenset[str]() if newest is None else newest.rows
    model.compactions.append(Compaction(requested, put, before | set(seen) - missed))
    return put


@pytest.mark.parametrize("retention", [Retention(retain=timedelta(minutes=RETAIN)), Retention(versions=1)])
def test_no_row_is_lost_and_no_reader_of_a_retained_moment_misses_a_file(retention: Retention) -> None:
    deleted_files = slices_lost = 0
    for seed in range(400):
        table, model = history(seed)
        choice = table.choose(retention)
        deleted = set() if choice.plan is None else {path.rpartition("/")[2] for path in choice.plan.paths}
        deleted_files += len(deleted)
        slices_lost += sum("not in the plan" in each.why for each in choice.kept)
        assert deleted <= model.files, seed
        left = model.files - deleted
        assert model.rows(left) == set(model.writes), f"seed {seed}: rows are lost"
        assert model.snapshot(LENGTH) <= left, f"seed {seed}: the newest slice"
        if retention.retain is not None:
            for moment in model.moments:
                assert model.snapshot(moment) <= left, f"seed {seed}: a reader that started at {moment}"
                assert model.time_travel(moment) <= left, f"seed {seed}: a reader of {moment}"
    assert deleted_files > 1000
    assert slices_lost > 20
