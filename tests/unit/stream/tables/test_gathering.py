"""Micro-batches of several tables that are written as one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from bucketingest.stream.tables.combined import Answer, Work
from bucketingest.stream.tables.gathering import Ended, Gathering
from bucketingest.write.rows.write_status import WriteStatus


def work(name: str) -> Work:
    """The gathering looks at nothing of it."""
    return cast("Work", name)


class Jobs:
    """Records which works were written together."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        self.fails: Exception | None = None

    def write(self, works: Sequence[Work]) -> list[Answer]:
        self.seen.append(sorted(map(str, works)))
        if self.fails is not None:
            raise self.fails
        bad = ValueError("bad")
        return [bad if str(each) == "bad" else [WriteStatus(task=0, sample=str(each))] for each in works]


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def gathering(jobs: Jobs) -> Iterator[Gathering]:
    made = Gathering(jobs.write)
    made.start()
    yield made
    made.stop()


def test_what_was_announced_is_written_together_and_each_gets_its_own_answer(gathering: Gathering, jobs: Jobs) -> None:
    names = ["a", "bad", "c"]
    for name in [*names, "nothing"]:
        gathering.announce(name)
    with ThreadPoolExecutor(3) as pool:
        futures = {name: pool.submit(gathering.submit, name, work(name)) for name in names}
        gathering.withdraw("nothing")
        assert futures["a"].result()[0].sample == "a"
        assert futures["c"].result()[0].sample == "c"
        with pytest.raises(ValueError, match="bad"):
            futures["bad"].result()
    assert jobs.seen == [names]


def test_one_that_does_not_come_is_left_behind(gathering: Gathering, jobs: Jobs) -> None:
    gathering.announce("a")
    gathering.announce("hangs")

    assert gathering.submit("a", work("a"))[0].sample == "a"
    assert jobs.seen == [["a"]]


def test_what_ends_the_job_reaches_every_table(gathering: Gathering, jobs: Jobs) -> None:
    jobs.fails = ConnectionError("gone")
    with pytest.raises(ConnectionError):
        gathering.submit("a", work("a"))


def test_after_the_end_nothing_is_written(gathering: Gathering, jobs: Jobs) -> None:
    gathering.stop()
    with pytest.raises(Ended):
        gathering.submit("a", work("a"))
    assert jobs.seen == []
