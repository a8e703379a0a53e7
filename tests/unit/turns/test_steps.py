"""The steps of a seed: of every kind, the same each time, with rows that are late, deleted, new and known."""

from __future__ import annotations

import random
from collections import Counter

from support.oracle.expected import ExpectedTable
from turns.__main__ import drawn
from turns.rows import RULES, hudis, ours
from turns.table import Step


def test_a_thousand_steps_have_every_kind_and_both_writers_most() -> None:
    steps = Counter(drawn("1", number) for number in range(1, 1001))
    assert set(steps) == set(Step)
    assert {step for step, count in steps.items() if count > 100} == {Step.OURS, Step.SIMPLE, Step.BLOOM}
    assert steps == Counter(drawn("1", number) for number in range(1, 1001))
    assert steps != Counter(drawn("2", number) for number in range(1, 1001))


def test_rows_are_updates_new_keys_deletes_late_and_of_a_deleted_key() -> None:
    expected, found = ExpectedTable(RULES), Counter[str]()
    for step in range(1, 40):
        chance = random.Random(step)
        live, deleted = expected.live(), expected.deleted()
        batch = (ours if step % 2 else hudis)(chance, step, expected, ())
        for row in batch.to_pylist():
            key = (row["region"], row["id"])
            found["new" if key not in live | deleted else "deleted" if key in deleted else "known"] += 1
            found["late"] += row["at"] < 10 * step - 1
            found["gone"] += row["gone"]
        keys = [row["id"] for row in batch.to_pylist()]
        found["twice"] += len(keys) - len(set(keys))
        expected.apply(batch)
    assert min(found[kind] for kind in ("new", "known", "deleted", "late", "gone", "twice")) > 20, found


def test_a_key_of_which_the_table_may_have_forgotten_the_delete_gets_no_late_row() -> None:
    expected = ExpectedTable(RULES)
    for step in range(1, 40):
        expected.apply(ours(random.Random(step), step, expected, ()))
    unsure = expected.deleted()
    late = 0
    for seed in range(40):
        for row in hudis(random.Random(seed), 40, expected, unsure).to_pylist():
            is_late = row["at"] < 400
            assert not is_late or (row["region"], row["id"]) not in unsure
            late += is_late
    assert late
