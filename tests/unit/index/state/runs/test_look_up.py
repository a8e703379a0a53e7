from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.state.hashing import KeyHashes
from bucketingest.index.state.runs.entries import NO_GROUP
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.run_file import Run
from support.tables.state.runs import entries, hashed, make_run, make_run_of

KEYS = [f"key-{number}" for number in range(1000)]


def file_ids(runs: list[Run], keys: KeyHashes, path: str = "p") -> list[str | None]:
    look_up = PartitionLookUp.of([run.slices[path] for run in runs])
    return [None if number == UNKNOWN else look_up.groups[number] for number in look_up.find(keys).tolist()]


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000])
def test_each_key_is_found_and_no_other_whatever_the_size_of_the_run(tmp_path: Path, count: int) -> None:
    run = make_run(tmp_path, {"p": {"f0": KEYS[0:count:2], "f1": KEYS[1:count:2]}})
    expected = [f"f{number % 2}" if number < count else None for number in range(1000)]
    assert file_ids([run], hashed(KEYS)) == expected


def test_queries_come_in_any_order_and_more_than_once(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"p": {"f": KEYS[:500]}})
    wanted = [KEYS[3], "x", KEYS[499], KEYS[3], KEYS[500]]
    assert file_ids([run], hashed(wanted)) == ["f", None, "f", "f", None]
    assert file_ids([run], hashed([])) == []


def test_the_newest_run_that_has_a_key_counts(tmp_path: Path) -> None:
    old = make_run(tmp_path, {"p": {"old": KEYS[:4], "gone": KEYS[4:6]}})
    removed = hashed(KEYS[4:5])
    removal = [(int(removed.hashes[0]), int(removed.checks[0]), NO_GROUP)]
    new = make_run_of(tmp_path, {"p": (["new"], entries(*removal, *_rows(KEYS[:1], 0)))})
    assert file_ids([new, old], hashed(KEYS[:6])) == ["new", "old", "old", "old", None, "gone"]


def _rows(keys: list[str], group: int) -> list[tuple[int, int, int]]:
    found = hashed(keys)
    return [(int(h), int(c), group) for h, c in zip(found.hashes, found.checks, strict=True)]


@pytest.mark.parametrize("before", [0, 60, 63, 64])
def test_keys_with_the_same_hash_are_told_apart_by_their_checks(tmp_path: Path, before: int) -> None:
    others = [(number, 1, 0) for number in range(before)]
    twins = [(1000, 5, 1), (1000, 6, 2), (1000, 9, 3)]
    run = make_run_of(tmp_path, {"p": (["f0", "f1", "f2", "f3"], entries(*others, *reversed(twins), (2000, 1, 0)))})
    checks = [4, 5, 6, 7, 9, 10]
    asked = KeyHashes(np.full(len(checks), 1000, np.uint64), np.array(checks, np.uint32))
    assert file_ids([run], asked) == [None, "f1", "f2", None, "f3", None]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3)), max_size=300), st.integers(1, 3))
def test_a_look_up_says_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], parts: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs: list[Run] = []
    known: dict[tuple[int, int], str] = {}
    for part in range(parts):
        own = rows[part::parts]
        runs.insert(0, make_run_of(folder, {"p": ([f"f{part}"], entries(*((h, c, 0) for h, c in own)))}))
        known.update(dict.fromkeys(own, f"f{part}"))
    asked = [(h, c) for h in range(302) for c in range(4)]
    keys = KeyHashes(np.array([h for h, _ in asked], np.uint64), np.array([c for _, c in asked], np.uint32))
    assert file_ids(runs, keys) == [known.get(each) for each in asked]


def test_more_keys_than_one_piece_are_found(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"p": {"f": KEYS}})
    keys = hashed(KEYS * 300)
    assert file_ids([run], keys) == ["f"] * 300_000
