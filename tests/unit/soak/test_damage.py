"""Damage to checkpoints hits what it says, with the checksums that would give it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.damage import Checkpoints
from soak.fault_plan import Damage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with one checkpoint of three micro-batches."""
    checkpoint = tmp_path / "checkpoints" / "attempt"
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        for number in (8, 9, 10):
            (checkpoint / folder / str(number)).write_text("v1\n{}\n")
            (checkpoint / folder / f".{number}.crc").write_text("crc")
    (checkpoint / "metadata").write_text('{"id":"a"}')
    return tmp_path / "checkpoints"


def content(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("damage", [damage for damage in Damage if damage is not Damage.STALE])
def test_every_damage_changes_something(root: Path, damage: Damage) -> None:
    before = content(root)
    assert Checkpoints(root, root.with_name("spare")).damage(damage) >= 1
    assert content(root) != before


def test_the_newest_file_is_the_one_of_the_greatest_number(root: Path) -> None:
    Checkpoints(root, root.with_name("spare")).damage(Damage.OFFSET_GONE)
    assert {path.name for path in (root / "attempt" / "offsets").iterdir()} == {"8", ".8.crc", "9", ".9.crc"}


def test_an_older_copy_comes_back_as_it_was(root: Path) -> None:
    checkpoints = Checkpoints(root, root.with_name("spare"))
    before = content(root)
    checkpoints.keep_copy()
    checkpoints.damage(Damage.OFFSETS_GONE)
    assert checkpoints.damage(Damage.STALE) == 1
    assert content(root) == before
