"""A pipeline with an index with a state ends at any step, and goes on elsewhere: with another number of tasks, with
another order of listings, and with a state that is lost, damaged, old, or of another table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.table.table import InsertMode
from bucketingest.index.state.store import STATE_DIRECTORY, forget_state
from bucketingest.storage import Storage
from bucketingest.storage.interface import Level, ObjectInfo
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.tables.state.tables import BOTH, FIRST, SECOND, check, data_files, insert_by_another, state_table
from support.tables.table_runs import TASKS, TestTable, offsets
from support.tables.write_plans import row


class Backwards(PassingStorage):
    """Lists its objects the other way round."""

    def list_level(self, prefix: str = "") -> Level:
        level = super().list_level(prefix)
        return Level(level.directories[::-1], level.objects[::-1])

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        yield from reversed(list(super().list(prefix)))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda content: content[:40],
    "another bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "another table's": lambda content: content.replace(b"bkstate", b"another"),
}


def damage_state(storage: Storage, damage: str, number: int) -> None:
    """All of the state, its newest manifest, or one of its objects."""
    objects = sorted(info.path for info in storage.list(STATE_DIRECTORY))
    if damage == "all lost":
        forget_state(storage)
    elif damage == "old" and (manifests := [path for path in objects if "/manifest/" in path]):
        storage.delete(manifests[-1])
    elif objects and damage in {"one lost", *DAMAGE}:
        path = objects[number % len(objects)]
        content = storage.get(path)
        storage.delete(path)
        if damage in DAMAGE:
            storage.put(path, DAMAGE[damage](content))


def is_any_decided(table: TestTable) -> bool:
    """Whether a pending instant has a decision."""
    pending = [instant.request_time for instant in table.timeline().instants if not instant.is_completed]
    paths = [info.path for info in table.storage.list("") if info.path.endswith("/decision")]
    return any(f"/{instant}/" in path for path in paths for instant in pending)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What the next attempt finds, and how it differs from the one that ended."""

    damage: str
    object_number: int
    tasks: int
    backwards: bool
    another_writes: bool
    """Another writer has committed in between: a new plan would have another profile."""


RESUMPTIONS = st.builds(
    Resumption,
    damage=st.sampled_from(["none", "none", "all lost", "one lost", "old", *DAMAGE]),
    object_number=st.integers(0, 9),
    tasks=st.integers(1, 4),
    backwards=st.booleans(),
    another_writes=st.booleans(),
)


@pytest.mark.parametrize("inserts", ["base", "log"])
@given(dies_at=st.integers(0, 70), after_effect=st.booleans(), next_one=RESUMPTIONS)
def test_an_attempt_may_end_at_any_step(
    tmp_path_factory: pytest.TempPathFactory,
    inserts: InsertMode,
    dies_at: int,
    after_effect: bool,
    next_one: Resumption,
) -> None:
    """With the state undamaged and as many tasks, every file keeps its name; with others the instant is aborted. So
    it is if another writer's commit came between its decision and its completion.
    """
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        table = state_table(inserts=inserts)
        batches = ((offsets(0, 6), FIRST), (offsets(6, 12), SECOND))
        storage = CrashingStorage(table.storage, dies_at, after_effect=after_effect)
        try:
            table.attempt(storage).go_on(*batches)
        except Crash:
            damage_state(table.storage, next_one.damage, next_one.object_number)
        written, expected = set(data_files(table)), dict(BOTH)
        overtaken = False
        if next_one.another_writes and table.timeline().completed_commits:
            overtaken = is_any_decided(table)
            insert_by_another(table, [row("other", amount=77)])
            expected["other"] = 77
        another_machine = folder / "another-machine"
        another_machine.mkdir()
        patch.setattr(tempfile, "tempdir", str(another_machine))
        its = Backwards(table.storage) if next_one.backwards else table.storage
        table.attempt(its, tasks=next_one.tasks).go_on(*batches)
        repeats = next_one.damage == "none" and next_one.tasks == TASKS and not overtaken
        assert not repeats or written <= set(data_files(table))
        table.attempt()
        check(table, expected)
        assert table.leftovers() == []
