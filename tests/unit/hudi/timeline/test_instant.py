"""Instants: their file names and times."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, next_instant_time, parse_time

T1, T2 = "20261121081714512", "20261121081715521"
NOW = datetime(2026, 11, 21, 8, 17, 14, 512_000, tzinfo=UTC)

NAMES = {
    f"{T1}.deltacommit.requested": Instant(T1, "deltacommit", State.REQUESTED),
    f"{T1}.deltacommit.inflight": Instant(T1, "deltacommit", State.INFLIGHT),
    f"{T1}_{T2}.deltacommit": Instant(T1, "deltacommit", State.COMPLETED, T2),
    f"{T1}.compaction.requested": Instant(T1, "compaction", State.REQUESTED),
    f"{T1}_{T2}.commit": Instant(T1, "commit", State.COMPLETED, T2),
    f"{T1}.inflight": Instant(T1, "commit", State.INFLIGHT),
    f"{T1}.rollback.inflight": Instant(T1, "rollback", State.INFLIGHT),
    f"{T1}_{T2}.savepoint": Instant(T1, "savepoint", State.COMPLETED, T2),
    f"{T1}_{T2}.replacecommit": Instant(T1, "replacecommit", State.COMPLETED, T2),
    f"{T1}.clustering.requested": Instant(T1, "clustering", State.REQUESTED),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_and_its_instant_stand_for_each_other(name: str) -> None:
    assert Instant.try_parse(name) == NAMES[name]
    assert NAMES[name].file_name == name


@pytest.mark.parametrize(
    "name",
    ["history", "hoodie.properties", f".{T1}.deltacommit.inflight.crc", f"{T1}.deltacommit", f"{T1}_{T2}.unheard", "x"],
)
def test_names_that_are_not_instants_are_left_out(name: str) -> None:
    assert Instant.try_parse(name) is None


@pytest.mark.parametrize(("state", "completion"), [(State.COMPLETED, None), (State.INFLIGHT, T2)])
def test_a_completion_time_belongs_to_completed_instants_only(state: State, completion: str | None) -> None:
    with pytest.raises(InvalidName, match="completion time"):
        Instant(T1, "deltacommit", state, completion)


def test_a_compaction_and_the_commit_it_becomes_are_one_instant() -> None:
    requested = Instant(T1, "compaction", State.REQUESTED)
    completed = Instant(T1, "commit", State.COMPLETED, T2)
    assert (completed.key, completed.rank > requested.rank) == (requested.key, True)
    assert Instant(T1, "savepoint", State.COMPLETED, T2).key != requested.key


@given(st.datetimes(datetime(1971, 1, 1), datetime(9999, 12, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_times_are_utc_and_cut_to_the_millisecond(moment: datetime) -> None:
    text = format_time(moment)
    assert parse_time(text) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert format_time(moment.astimezone(timezone(timedelta(hours=-7)))) == text


def test_a_naive_datetime_has_no_instant_time() -> None:
    with pytest.raises(ValueError, match="aware"):
        format_time(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("text", ["", "2026", "20261321081714512", "2026112108171451x", "202611210817145120"])
def test_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="instant time"):
        parse_time(text)


def test_the_next_time_is_now_when_the_table_lies_behind() -> None:
    assert next_instant_time(NOW + timedelta(seconds=1), [T1]) == "20261121081715512"
    assert next_instant_time(NOW, []) == T1


def test_the_next_time_exceeds_a_known_time_that_is_now_or_later() -> None:
    assert next_instant_time(NOW, [T1]) == "20261121081714513"
    assert next_instant_time(NOW, [T2, T1]) == "20261121081715522"


def test_a_millisecond_more_carries_over_the_year() -> None:
    assert next_instant_time(NOW, ["20261231235959999"]) == "20270101000000000"


def test_times_go_on_after_one_that_is_days_ahead() -> None:
    ahead = NOW + timedelta(days=3)
    assert next_instant_time(NOW, [format_time(ahead)]) == format_time(ahead + timedelta(milliseconds=1))


def test_hudis_bootstrap_marks_are_not_times() -> None:
    assert next_instant_time(NOW, ["00000000000002"]) == T1


@given(st.lists(st.integers(-400_000, 290_000)), st.integers(-100_000, 100_000))
def test_times_taken_in_a_row_increase_whatever_the_clock_does(known: list[int], step: int) -> None:
    times = [format_time(NOW + timedelta(milliseconds=offset)) for offset in known]
    first = next_instant_time(NOW, times)
    second = next_instant_time(NOW + timedelta(milliseconds=step), [*times, first])
    assert all(first > time for time in times)
    assert second > first
