"""Which times are taken, and that a query about rows that may be gone is refused."""

from __future__ import annotations

import pytest

from bucketingest.cli.errors import BadOption
from bucketingest.cli.query.moments import Moments, check_kept
from bucketingest.hudi.timeline.timeline import Timeline

TIMES = [f"20260102030405{number:03d}" for number in range(10)]
TIMELINE = Timeline.of_file_names(
    [f"{TIMES[1]}_{TIMES[3]}.deltacommit", f"{TIMES[2]}_{TIMES[4]}.commit", f"{TIMES[5]}_{TIMES[6]}.deltacommit"]
)


@pytest.mark.parametrize(
    ("as_of", "since", "until", "said"),
    [
        (
            "2026",
            None,
            None,
            "--as-of: instant time '2026' is not of the form yyyyMMddHHmmssSSS; `bucketingest inspect`",
        ),
        (None, "20261302030405000", None, "--since: "),
        (TIMES[1], TIMES[1], None, "name either"),
        (TIMES[1], None, TIMES[1], "name either"),
        (None, None, TIMES[1], "--until: needs a --since"),
        (None, TIMES[2], TIMES[1], "that is not later"),
    ],
)
def test_times_that_make_no_sense_are_refused(as_of: str, since: str, until: str, said: str) -> None:
    with pytest.raises(BadOption, match=r"^--") as raised:
        Moments.of(as_of, since, until)
    assert said in str(raised.value)


def test_the_second_process_gets_the_same_times() -> None:
    assert Moments.of(None, TIMES[1], TIMES[2]).options == ["--since", TIMES[1], "--until", TIMES[2]]
    assert Moments.of(None, None, None).options == []


def test_changes_are_those_that_were_completed_after_the_instant() -> None:
    assert Moments(since=TIMES[1], until=TIMES[5]).completed(TIMELINE) == Moments(since=TIMES[3], until=TIMES[6])
    assert Moments(since=TIMES[0]).completed(TIMELINE) == Moments(since=TIMES[0])


@pytest.mark.parametrize(
    ("moments", "last_earliest", "archived"),
    [
        (Moments(), TIMES[9], True),
        (Moments(as_of=TIMES[1]), TIMES[1], True),
        (Moments(as_of=TIMES[0]), "", True),
        (Moments(since=TIMES[0]), "", False),
        (Moments(since=TIMES[3]), TIMES[5], True),
    ],
)
def test_what_is_there_is_read(moments: Moments, last_earliest: str, archived: bool) -> None:
    check_kept(moments, TIMELINE, last_earliest=last_earliest, archived=archived)


@pytest.mark.parametrize(
    ("moments", "last_earliest", "archived", "said"),
    [
        (Moments(as_of=TIMES[1]), TIMES[2], False, f"the earliest that is whole is {TIMES[2]}"),
        (Moments(since=TIMES[0]), TIMES[2], False, f"a clean has deleted files of the commit {TIMES[1]}"),
        (Moments(since=TIMES[2]), "", True, f"no commits before {TIMES[3]} any more"),
    ],
)
def test_what_may_be_gone_is_refused(moments: Moments, last_earliest: str, archived: bool, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        check_kept(moments, TIMELINE, last_earliest=last_earliest, archived=archived)
