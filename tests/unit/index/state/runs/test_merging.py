from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketingest.index.state.runs.entries import NO_GROUP, Conflicts, Entries, one_for_each_key, sorted_order
from bucketingest.index.state.runs.merging import RUN_ENTRIES_MAX, TIER, RunMerger, runs_to_merge
from bucketingest.index.state.runs.run_file import Run
from support.tables.state.runs import TABLE_ID, entries, make_run, make_run_of


def merged(
    folder: Path,
    runs: list[Run],
    generations: dict[str, int] | None = None,
    *,
    piece: int = 7,
    most: int = 1000,
    keep_removals: bool = True,
) -> list[Run]:
    merger = RunMerger(folder, TABLE_ID, piece_entries=piece, run_entries_max=most)
    files = merger.merge(runs, generations, keep_removals=keep_removals)
    return [Run.open(file, TABLE_ID, digest=digest) for digest, file in files]


def content(runs: list[Run]) -> dict[str, list[tuple[int, int, str | None]]]:
    found: dict[str, list[tuple[int, int, str | None]]] = {}
    for run in runs:
        for path, each in run.slices.items():
            rows = zip(each.entries.hashes.tolist(), each.entries.checks, each.entries.groups.tolist(), strict=True)
            found.setdefault(path, []).extend(
                (h, int(c), None if g == NO_GROUP else each.groups[g]) for h, c, g in rows
            )
    return found


def test_a_merge_has_each_keys_newest_entry(tmp_path: Path) -> None:
    old = make_run_of(
        tmp_path, {"p": (["b", "a"], entries((1, 1, 0), (2, 1, 1), (3, 1, 1))), "q": (["c"], entries((9, 9, 0)))}
    )
    new = make_run_of(tmp_path, {"p": (["d"], entries((2, 1, 0), (2, 2, 0), (3, 1, NO_GROUP)))})
    assert content(merged(tmp_path, [new, old])) == {
        "p": [(1, 1, "b"), (2, 1, "d"), (2, 2, "d"), (3, 1, None)],
        "q": [(9, 9, "c")],
    }
    assert content(merged(tmp_path, [new, old], keep_removals=False))["p"] == [(1, 1, "b"), (2, 1, "d"), (2, 2, "d")]


def test_entries_of_forgotten_generations_vanish(tmp_path: Path) -> None:
    old = make_run_of(tmp_path, {"p": (["a"], entries((1, 1, 0), (2, 1, 0))), "q": (["a"], entries((1, 1, 0)))})
    new = make_run_of(tmp_path, {"p": (["b"], entries((2, 1, 0)))}, {"p": 5})
    (found,) = merged(tmp_path, [new, old], {"p": 5})
    assert content([found]) == {"p": [(2, 1, "b")]}
    assert found.slices["p"].generation == 5
    assert merged(tmp_path, [new, old], {}) == []


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2), st.integers(0, 2)), max_size=60),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 50),
    st.integers(5, 80),
)
def test_a_merge_in_pieces_into_several_runs_says_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[int, int, int]]], piece: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        make_run_of(folder, {"p": ([f"f{number}-{group}" for group in range(3)], entries(*own))})
        for number, own in enumerate(rows)
    ]
    expected: dict[tuple[int, int], str] = {}
    for number, own in reversed(list(enumerate(rows))):
        first = {(h, c): f"f{number}-{g}" for h, c, g in reversed(own)}
        expected |= first
    results = merged(folder, runs, piece=piece, most=most)
    assert all(len(run) for run in results)
    found = [row for run in results for row in content([run]).get("p", [])]
    assert found == [(h, c, group) for (h, c), group in sorted(expected.items())]


def test_the_same_runs_make_the_same_bytes(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(500)]
    runs = [make_run(tmp_path, {"p": {f"f{part}": keys[part::3]}}) for part in range(3)]
    first = [run.digest for run in merged(tmp_path, runs, most=200)]
    assert len(first) == 3
    assert [run.digest for run in merged(tmp_path, runs, most=200)] == first


def test_who_asks_is_told_which_keys_had_two_groups(tmp_path: Path) -> None:
    one = make_run_of(tmp_path, {"p": (["a", "b"], entries((1, 1, 0), (2, 1, 0), (3, 1, 1)))})
    two = make_run_of(tmp_path, {"p": (["b", "c"], entries((1, 1, 0), (2, 2, 0), (3, 1, 0)))})
    calls: list[tuple[str, list[int], list[str], list[str]]] = []

    def note(path: str, groups: list[str], found: Conflicts) -> None:
        named = [[groups[number] for number in part.groups] for part in (found.kept, found.dropped)]
        calls.append((path, found.kept.hashes.tolist(), named[0], named[1]))

    RunMerger(tmp_path, TABLE_ID, on_conflicts=note).merge([one, two])  # type: ignore[arg-type]
    assert calls == [("p", [1], ["a"], ["b"])]


def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    runs = [make_run_of(tmp_path, {"p": ([name], entries((1, 1, 0)))}) for name in "ab"]
    before = sorted(tmp_path.iterdir())

    def fail(*_: object) -> None:
        raise RuntimeError

    merger = RunMerger(tmp_path, TABLE_ID, on_conflicts=fail)
    with pytest.raises(RuntimeError):
        merger.merge(runs)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("sizes", "merged_runs"),
    [
        ([], 0),
        ([5], 0),
        ([10, 41], 0),
        ([10, 40], 2),
        ([1, 1], 2),
        ([1, 5, 25], 0),
        ([1, 5, 24], 3),
        ([1, 4, 100], 2),
        ([10, RUN_ENTRIES_MAX], 0),
        ([1, 1, RUN_ENTRIES_MAX, 1], 2),
    ],
)
def test_which_runs_are_merged(sizes: list[int], merged_runs: int) -> None:
    assert runs_to_merge(sizes) == range(merged_runs)


@given(st.lists(st.integers(1, 1000), max_size=300))
def test_runs_stay_few_however_large_the_batches_are(batches: list[int]) -> None:
    sizes: list[int] = []
    for batch in batches:
        sizes.insert(0, batch)
        chosen = runs_to_merge(sizes)
        if chosen:
            sizes[: chosen.stop] = [sum(sizes[: chosen.stop])]
        assert all(sizes[place] > TIER * sum(sizes[:place]) for place in range(1, len(sizes)))
    assert len(sizes) <= 9


@given(st.lists(st.tuples(st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1), st.integers(0, 3)), max_size=40))
def test_entries_are_sorted_by_hash_and_check_and_the_first_of_a_key_stays(rows: list[tuple[int, int]]) -> None:
    given_rows = entries(*((h, c, number) for number, (h, c) in enumerate(rows)))
    kept, conflicts = one_for_each_key(given_rows)
    first: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row, number)
    found = list(zip(kept.hashes.tolist(), kept.checks.tolist(), kept.groups.tolist(), strict=True))
    assert found == [(h, c, number) for (h, c), number in sorted(first.items())]
    assert len(conflicts.kept) == len(conflicts.dropped) == len(rows) - len(first)


def test_hashes_that_differ_only_in_their_lowest_bits_are_sorted() -> None:
    hashes = np.array([7, 5, 6, 5, 2**63, 2**63 - 1], np.uint64)
    assert sorted_order(hashes).tolist() == [1, 3, 2, 0, 5, 4]
    assert sorted_order(np.zeros(0, np.uint64)).tolist() == []


def test_group_numbers_change_and_no_group_stays_none() -> None:
    changed = entries((1, 7, 0), (2, 8, NO_GROUP), (3, 9, 1)).with_groups(np.array([5, 3], np.uint32))
    assert isinstance(changed, Entries)
    assert changed.groups.tolist() == [5, NO_GROUP, 3]
    assert changed.checks.tolist() == [7, 8, 9]
