"""A driver is judged by its commits: idle is not stuck, and a running driver may be unhealthy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.job_report import InflightReport, LagReport, ProgressReport, SourceReport
from bucketingest_operator.decide.failures import Failure
from bucketingest_operator.decide.health import Health, judge
from bucketingest_operator.observation import Contact, Executors
from support.operator.observations import NOW, bucket_ingest, commit, driver, report

SPEC = bucket_ingest().spec  # limits: 5m without a commit, 10m inflight

TWO = Executors(running=2)


def judged(progress: ProgressReport, executors: Executors = TWO) -> Health:
    return judge(SPEC, driver(), Contact(progress), executors, NOW)


def test_commits_in_time_are_well() -> None:
    found = judged(report())
    assert (found.stuck, found.fresh, found.fresh_message) == (None, "True", "Commits come within health.maxCommitLag.")


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"inflight": InflightReport(instant="20261121110000000", age_seconds=597)}, 3),
        ({"last_report_age_seconds": 290}, 12),  # the trigger's time is allowed too
        ({"inflight": None, "lag": LagReport(offsets=5, seconds=280), "last_commit": commit(290)}, 20),
        ({"inflight": None, "lag": LagReport(offsets=5, seconds=299), "last_commit": commit(290)}, 10),
        ({"inflight": None, "lag": LagReport(offsets=0, seconds=299), "idle": True}, 301),
    ],
)
def test_the_time_until_a_limit_is_known_so_that_no_pass_is_too_late(changes: dict[str, Any], seconds: int) -> None:
    assert judged(report(**changes)).limit_in == timedelta(seconds=seconds)


def test_idle_for_hours_is_not_stuck() -> None:
    quiet = report(idle=True, last_commit=commit(90_000), inflight=None, lag=LagReport(offsets=0, seconds=0))
    assert judged(quiet).stuck is None


def test_input_that_came_just_now_after_a_quiet_night_is_not_stuck() -> None:
    assert judged(report(last_commit=commit(90_000), lag=LagReport(offsets=5, seconds=3))).stuck is None


def test_no_commit_although_there_is_input_is_stuck() -> None:
    found = judged(report(last_commit=commit(301), lag=LagReport(offsets=5, seconds=301)))
    assert found.stuck is not None
    assert found.fresh == "False"


def test_an_instant_inflight_for_too_long_is_stuck() -> None:
    old = InflightReport(instant="20261121110000000", age_seconds=601)
    assert "20261121110000000" in (judged(report(inflight=old)).stuck or "")


def test_a_new_attempt_has_time_for_the_instant_that_an_earlier_one_left() -> None:
    old = InflightReport(instant="20261121110000000", age_seconds=90_000)
    young = report(inflight=old, running_seconds=60, commits=0, last_commit=None)
    assert judged(young).stuck is None


def test_a_query_without_progress_is_stuck() -> None:
    assert judged(report(last_report_age_seconds=303)).stuck is not None
    assert judged(report(last_report_age_seconds=300)).stuck is None


def test_executors_that_do_not_start_are_waited_for() -> None:
    late = report(last_commit=commit(900), lag=LagReport(offsets=5, seconds=900))
    found = judged(late, Executors(running=0, pending=2, message="0/3 nodes are available."))
    assert found.stuck is None
    assert "0/3 nodes" in found.fresh_message
    assert judged(late, Executors(running=1, pending=1)).stuck is not None


def test_silence_is_stuck_only_when_it_lasts() -> None:
    for seconds, stuck in ((299, False), (301, True)):
        contact = Contact(report(), NOW - timedelta(seconds=seconds))
        found = judge(SPEC, driver(), contact, Executors(), NOW)
        assert (found.stuck is not None) == stuck
        assert (found.fresh, found.fresh_message) == ("Unknown", "The driver does not answer.")


def test_a_driver_that_never_answered_has_time_to_start() -> None:
    for minutes, stuck in ((9, False), (11, True)):
        pod = driver(created_at=NOW - timedelta(minutes=minutes))
        found = judge(SPEC, pod, Contact(), Executors(), NOW)
        assert ((found.stuck is not None), found.fresh_message) == (stuck, "The driver is starting Spark.")


def test_a_driver_whose_executors_are_refused_is_not_stuck_and_says_why() -> None:
    late = report(last_commit=commit(3000), lag=LagReport(offsets=5, seconds=3000))
    assert judged(late, Executors()).stuck is not None
    refused = judged(late, Executors(refused="exceeded quota: small"))
    assert (refused.stuck, refused.fresh, refused.waits_for) == (None, "False", Failure.NO_EXECUTORS)
    assert "exceeded quota: small" in refused.fresh_message
    pending = judged(late, Executors(pending=2, message="0/3 nodes"))
    assert (pending.stuck, pending.waits_for) == (None, Failure.NO_EXECUTORS)
    assert judged(late, Executors(running=1, refused="exceeded quota: small")).waits_for is None


def test_an_idle_pipeline_needs_no_executors() -> None:
    quiet = report(idle=True, last_commit=commit(90_000), inflight=None, lag=LagReport(offsets=0, seconds=0))
    assert judged(quiet, Executors(refused="exceeded quota: small")).fresh == "True"


NOT_KNOWN = LagReport(offsets=None, seconds=None)
SILENT = SourceReport(
    bootstrap_servers="kafka:9092",
    answers=False,
    answered_at=None,
    answering_seconds=0,
    unanswered_seconds=4000,
    problem="kafka:9092 does not answer: is the broker up?",
    open_transaction_seconds=0,
    open_transaction=None,
)


def test_a_source_that_does_not_answer_is_waited_for_and_named() -> None:
    """Another driver would wait for the same brokers."""
    waiting = report(phase="waiting", source=SILENT, lag=NOT_KNOWN, inflight=None, last_commit=commit(4000))
    found = judged(waiting)
    assert (found.stuck, found.fresh, found.waits_for) == (None, "Unknown", Failure.SOURCE_UNAVAILABLE)
    assert found.fresh_message == "kafka:9092 does not answer: is the broker up?"


OLD = InflightReport(instant="20261121110000000", age_seconds=4000)
LATE = LagReport(offsets=5, seconds=4000)


@pytest.mark.parametrize("phase", ["running", "waiting"])
def test_a_micro_batch_that_waits_for_its_source_is_not_stuck(phase: str) -> None:
    """Its tasks may still ask, or it will be written again: another driver could do neither."""
    waiting = report(phase=phase, source=SILENT, lag=NOT_KNOWN, inflight=OLD, last_report_age_seconds=4000)
    found = judged(waiting)
    assert (found.stuck, found.fresh, found.waits_for) == (None, "Unknown", Failure.SOURCE_UNAVAILABLE)


@pytest.mark.parametrize(("answering", "stuck"), [(5, False), (299, False), (700, True)])
@pytest.mark.parametrize(
    "late", [{"inflight": OLD}, {"last_report_age_seconds": 4000}, {"lag": LATE, "last_commit": commit(4000)}]
)
def test_when_the_source_answers_again_the_limits_count_from_then(
    late: dict[str, Any], answering: float, *, stuck: bool
) -> None:
    here = SILENT.model_copy(
        update={"answers": True, "problem": None, "unanswered_seconds": 0, "answering_seconds": answering}
    )
    assert (judged(report(source=here, **late)).stuck is not None) is stuck


@pytest.mark.parametrize("phase", ["running", "waiting"])
def test_a_driver_that_has_not_looked_at_its_source_is_not_known_to_be_well(phase: str) -> None:
    """It may do so for minutes, fail, and be replaced by one that does the same."""
    new = report(phase=phase, lag=NOT_KNOWN, last_commit=None, inflight=None, commits=0, batches=0)
    found = judged(new)
    assert (found.stuck, found.fresh) == (None, "Unknown")
    assert judged(new.model_copy(update={"running_seconds": 700, "last_report_age_seconds": 700})).stuck is not None
