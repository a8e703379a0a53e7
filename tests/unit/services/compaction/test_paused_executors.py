"""An executor that was paused before it put a base file, or is of another release, continues after the end of its
round.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from bucketingest.services.compaction import facts, holder, rounds
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge import merge_group
from bucketingest.services.protocol.records import End
from support.storage.crashing_storage import CrashingStorage
from support.tables.other_writers import archive
from support.tables.services.compactions import Written, execute, finish, roll_back, started
from support.tables.services.snapshot import doubled_base_files


class Paused(CrashingStorage):
    """Others act just before, or just after, its first base file."""

    def __init__(self, given: Written, act: Callable[[], object], *, after: bool) -> None:
        super().__init__(given.storage, -1, after_effect=False)
        self._act: Callable[[], object] | None = act
        self._after = after

    def _change(self, path: str, act: Callable[[], None]) -> None:
        others = self._act if path.endswith(".parquet") else None
        if others is not None:
            self._act = None
        if others is not None and not self._after:
            others()
        super()._change(path, act)
        if others is not None and self._after:
            others()


@pytest.mark.parametrize("after", [False, True], ids=["before its base file", "after its base file"])
def test_the_base_files_of_a_commit_stay(given: Written, after: bool) -> None:
    """Another executor made them first, or adopted them, and its results were committed."""
    work = started(given.storage)

    def others() -> None:
        execute(given.storage, work)
        assert finish(given.storage) == [End.COMPLETED]

    with pytest.raises(RoundEnded):
        execute(Paused(given, others, after=after), work)
    given.unchanged()
    given.goes_on()


def test_a_base_file_of_a_closed_round_goes(given: Written) -> None:
    work = started(given.storage)

    def others() -> None:
        roll_back(given, work, finished=True)
        assert finish(given.storage) == [End.COMPLETED]

    with pytest.raises(RoundEnded):
        execute(Paused(given, others, after=False), work)
    assert not [info for info in given.storage.list("") if info.path.endswith(f"_1-0-0_{work.compaction}.parquet")]
    given.unchanged()
    given.goes_on()


@pytest.mark.parametrize("archived", [False, True], ids=["on the timeline", "archived"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_objects_of_its_compaction_are_gone(given: Written, rounds: int, archived: bool) -> None:
    """After a day. The first of two rounds was closed, so its base file would be a second version of the same rows."""
    work = started(given.storage)
    journal = CompactionJournal(given.storage)

    def others() -> None:
        if rounds == 2:
            roll_back(given, work, finished=True)
        else:
            execute(given.storage, work)
        assert finish(given.storage) == [End.COMPLETED]
        if archived:
            archive(given.table)
        journal.forget(work.number)

    with pytest.raises(RoundEnded):
        execute(Paused(given, others, after=False), work)
    assert journal.plan(work.number) is None
    left = [info for info in given.storage.list("") if info.path.endswith(f"_1-0-0_{work.compaction}.parquet")]
    assert bool(left) is (rounds == 1), "a part of the commit stays"
    assert doubled_base_files(given.storage) == []


def test_base_files_that_another_writer_makes_again_go_although_the_compaction_is_archived(given: Written) -> None:
    """It loaded the timeline while the compaction was pending, has no lock, and dies before it completes it again."""
    work = started(given.storage)
    execute(given.storage, work)
    assert finish(given.storage) == [End.COMPLETED]
    made = [info.path for info in given.storage.list("") if info.path.endswith(f"_1-0-0_{work.compaction}.parquet")]
    archive(given.table)
    for path in made:
        given.storage.create(path.replace("_1-0-0_", "_7-0-1_"), given.storage.get(path))
    assert doubled_base_files(given.storage)
    holder.CompactionHolder(given.storage, nullcontext, lambda: None).sweep_old()
    assert doubled_base_files(given.storage) == []
    assert [info.path for info in given.storage.list("") if info.path in made] == made


@pytest.mark.parametrize("executed", [False, True], ids=["before", "after its base files"])
def test_a_release_that_merges_otherwise_opens_a_round_of_its_own(
    given: Written, executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = started(given.storage)
    if executed:
        execute(given.storage, work)
    for module in (facts, holder, rounds, merge_group):
        monkeypatch.setattr(module, "MERGE_VERSION", 99)
    with pytest.raises(RoundEnded, match="merges otherwise"):
        execute(given.storage, work)
    assert finish(given.storage) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 2
    given.unchanged()
