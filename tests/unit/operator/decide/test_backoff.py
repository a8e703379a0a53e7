"""The delay grows, has a limit, and starts again from the shortest after a healthy run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.spec.fields.runtime import Restart
from bucketingest_operator.decide.backoff import BASE, CAP, JITTER, counted_failures, delay, wait_after
from support.operator.observations import NOW, UID, attempt

RESTART = Restart(max_failures=3)


@pytest.mark.parametrize("failures", range(1, 30))
def test_a_delay_is_quadratic_up_to_the_cap_and_its_jitter_is_bounded(failures: int) -> None:
    plain = min(BASE * failures**2, CAP)
    assert plain <= delay(UID, 7, failures) <= plain * (1 + JITTER)


def test_one_attempt_always_has_the_same_delay_and_others_have_another() -> None:
    assert delay(UID, 7, 2) == delay(UID, 7, 2)
    assert len({delay(UID, number, 2) for number in range(20)}) == 20


def test_after_a_planned_end_there_is_no_wait() -> None:
    assert wait_after(UID, [attempt(1, ended=0, outcome="SpecChanged")]) == timedelta(0)
    assert wait_after(UID, []) == timedelta(0)


def test_after_the_first_eviction_there_is_no_wait_and_after_the_second_there_is() -> None:
    once = [attempt(1, started=10, ended=5, outcome="Evicted")]
    assert wait_after(UID, once) == timedelta(0)
    assert wait_after(UID, [*once, attempt(2, started=4, ended=0, outcome="Evicted")]) >= BASE


def test_drivers_that_are_stuck_from_their_start_on_wait_longer_each_time() -> None:
    stuck = [
        attempt(number, started=9000 - 900 * number, ended=8200 - 900 * number, outcome="Stuck") for number in (1, 2, 3)
    ]
    assert wait_after(UID, stuck) >= BASE * 4
    healthy = attempt(4, started=4000, ended=10, outcome="Stuck")
    assert wait_after(UID, [*stuck, healthy]) == timedelta(0)


def test_a_stable_run_makes_the_next_wait_short_again() -> None:
    quick = [attempt(number, started=5000, ended=4999, outcome="QueryFailed") for number in range(1, 5)]
    stable = attempt(5, started=4000, ended=10, outcome="QueryFailed")
    assert wait_after(UID, quick) >= BASE * 16
    assert wait_after(UID, [*quick, stable]) < BASE * 2


def test_failures_of_the_window_are_counted_once_and_outages_are_not() -> None:
    attempts = [
        attempt(1, started=99_000, ended=90_000, outcome="QueryFailed"),
        attempt(2, ended=50, outcome="QueryFailed"),
        attempt(3, ended=40, outcome="StorageUnavailable"),
        attempt(4, ended=30, outcome="SpecChanged"),
        attempt(5, ended=20, outcome="OutOfMemory"),
    ]
    before = [NOW - timedelta(seconds=50), NOW - timedelta(seconds=3000)]
    counted = counted_failures(before, attempts, None, NOW, RESTART)
    assert [int((NOW - end).total_seconds()) for end in counted] == [3000, 50, 20]


def test_failures_before_a_person_ended_the_stall_do_not_count() -> None:
    attempts = [attempt(number, ended=100 - number, outcome="QueryFailed") for number in range(1, 4)]
    assert counted_failures((), attempts, NOW - timedelta(seconds=98), NOW, RESTART) == (NOW - timedelta(seconds=97),)
