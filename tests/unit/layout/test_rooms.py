"""A package is a room that one sentence can name, and a module has one subject: both stay small enough to be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).parents[3]
SOURCES: Final = (REPOSITORY / "sparkjob/src/bucketingest", REPOSITORY / "operator/src/bucketingest_operator")
MODULES_MAX: Final = 12
LINES_MAX: Final = 360

# Modules that are longer. A line here only ever gets smaller, and goes with its module's split.
LONGER: Final = {
    "decide/status.py": 410,
    "spec/job_report.py": 370,
    "stream/foreach_batch.py": 370,
    "stream/report/board.py": 390,
    "stream/tables/one_table.py": 440,
    "write/instants/journal.py": 400,
    "write/open_table.py": 380,
    "passes.py": 370,
}


def _modules() -> Iterator[tuple[str, Path]]:
    """Each module by its path below its distribution's package."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            if path.name != "__init__.py":
                yield path.relative_to(source).as_posix(), path


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_package_has_at_most_twelve_modules() -> None:
    counts = Counter(path.parent for _, path in _modules())
    assert counts, "the sources are not where this test looks"
    larger = {folder.name: count for folder, count in counts.items() if count > MODULES_MAX}
    assert not larger, f"more than {MODULES_MAX} modules: make a package of those with one subject, or merge"


def test_a_module_is_short() -> None:
    longer = {name: lines for name, path in _modules() if (lines := _lines(path)) > LONGER.get(name, LINES_MAX)}
    assert not longer, f"longer than {LINES_MAX} lines, or than the list here allows: split them by subject"


def test_the_list_of_longer_modules_shrinks() -> None:
    lines = {name: _lines(path) for name, path in _modules()}
    assert not sorted(name for name in LONGER if lines.get(name, 0) <= LINES_MAX - 20), "take these from the list"


def _named_modules() -> list[str]:
    """What docs/architecture.md names with a folder: `write/rows`, `write/coordinator.py`."""
    text = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py)?)/?`", text)))


@pytest.mark.parametrize("named", _named_modules())
def test_what_the_architecture_page_names_is_there(named: str) -> None:
    within = [*SOURCES, *(source.parent for source in SOURCES), SOURCES[0] / "services"]
    there = [*(each / named for each in within), *(each / f"{named}.py" for each in within)]
    assert any(each.exists() for each in there), f"docs/architecture.md names {named}, and no package has it"
