"""The page of the objects on storage is whole: no schedule writes an object of ours that it does not list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from bucketingest.hudi.naming import OWN_DIRECTORY
from support.pages import ROOT
from support.simulation.runs import run_quietly
from support.simulation.store import Objects

PAGE = ROOT / "docs/storage-layout.md"
SCHEDULES = range(26, 80)
"""So many at least, and at most: until each row of the page was written."""
ELSEWHERE = {
    "aborted/<instant>",
    "beginning/<digest>",
    "files/batch/<n>",
    "files/id",
    "files/seen/<n>",
    "lease/<n>",
    "services/compaction/<n>/round/<r>/claim/<chunk>/<k>",
}
"""Rows of the page that these schedules do not need."""


def rows() -> Iterator[str]:
    """Names in the first column of the tables of our own directory."""
    own = PAGE.read_text().partition("## Of a pipeline")[2].partition("## Outside the table")[0]
    for line in own.splitlines():
        if line.startswith("| `"):
            names = re.findall(r"`([^`]+)`", line.split("|")[1])
            folder = names[0].rpartition("/")[0]
            yield names[0]
            # Those after the first are beside it; what has a folder of its own is below the object's number.
            for name in names[1:]:
                yield f"{folder}/{name}"


def pattern(row: str) -> re.Pattern[str]:
    shared = row.startswith((".bucketingest-", "lease/", "services/", "state/"))
    return re.compile(("" if shared else "[^/]+/") + re.sub(r"<[a-z]+>", "[^/]+", row))


def written(monkeypatch: pytest.MonkeyPatch, listed: Mapping[str, re.Pattern[str]]) -> set[str]:
    names = set[str]()

    def ours() -> set[str]:
        return {name.removeprefix(f"{OWN_DIRECTORY}/") for name in names if name.startswith(f"{OWN_DIRECTORY}/")}

    def created(self: Objects, path: str, content: bytes) -> None:
        names.add(path)
        original(self, path, content)

    original = Objects.create
    monkeypatch.setattr(Objects, "create", created)
    assert not run_quietly(1, event="rename").violations  # of a pipeline that is idle, the position is kept
    for seed in range(SCHEDULES.stop):
        if seed >= SCHEDULES.start and not unused(listed, ours()):
            break
        assert not run_quietly(seed, state=bool(seed % 2)).violations
    return ours()


def unused(listed: Mapping[str, re.Pattern[str]], names: set[str]) -> set[str]:
    return {row for row, each in listed.items() if not any(each.fullmatch(name) for name in names)} - ELSEWHERE


def test_every_object_is_on_the_page_and_every_row_of_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {row: pattern(row) for row in rows()}
    names = written(monkeypatch, listed)
    assert {name for name in names if not any(each.fullmatch(name) for each in listed.values())} == set()
    assert unused(listed, names) == set()
