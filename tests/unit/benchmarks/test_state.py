"""The state benchmark measures what its cases say: every key is found, and all keys are loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.sides.state import State, uuids


def test_keys_look_like_uuids_and_differ() -> None:
    texts = uuids(np.arange(1000)).to_pylist()
    assert len(set(texts)) == 1000
    assert {len(text) for text in texts} == {36}
    assert [len(part) for part in texts[0].split("-")] == [8, 4, 4, 4, 12]


def test_every_known_key_is_found(tmp_path: Path) -> None:
    state = State()
    made = state.make_run(str(tmp_path), 3000)
    assert [path.name for path in tmp_path.iterdir()] == [made["digest"]]
    state.open_cold(str(tmp_path), made["digest"])
    answer = state.look_up(3000, 500, seed=1)
    assert answer["cpu_seconds"] > 0
    assert answer["private_bytes"] > 0


def test_all_keys_of_the_base_files_are_loaded(tmp_path: Path) -> None:
    state = State()
    names = state.make_base_files(str(tmp_path), 100, 4)["names"]
    assert len(names) == 4
    assert state.load(str(tmp_path), names)["rows"] == 100
