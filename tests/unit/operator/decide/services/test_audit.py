"""The audit of a mirror: one Job in each window, only while the pipeline is in time; what it finds is a condition."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bucketingest.spec.status import Condition
from bucketingest_operator.decide.plan import Action, CreateCheck, DeleteJob, EmitEvent, Plan, WriteStatus
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.services.audit import PIPELINE_LATE
from bucketingest_operator.decide.spec_changes import Change, audit_digest, change_since, cluster_problems
from bucketingest_operator.decide.status import MIRROR_EQUAL
from bucketingest_operator.observation import REFUSED_REST, CheckJob, Contact, JobState, Observation, PodReason, Refusal
from bucketingest_operator.resource import PAUSE_ANNOTATION
from support.operator.observations import NAMES, NOW, after, bucket_ingest, commit, input_of, report, termination, well

AUDIT = {"against": "postgres://u@h/shop", "window": {"start": "11:00", "duration": "2h"}}
WANTED = bucket_ingest({"audit": AUDIT})
OPENED = NOW - timedelta(hours=1)
CREATE, DELETE = CreateCheck("audit", 1, audit_digest(WANTED), WANTED), DeleteJob(NAMES.audit, "job-1")
FOUND = "the table differs from its source; 1 missing, 0 extra, 0 with other values; missing: id=7"


def seen(*jobs: CheckJob, **changes: Any) -> Observation:
    """A pipeline that does well, with an audit whose window opened an hour ago."""
    found = replace(after(well(), wanted=WANTED), inputs={1: input_of(WANTED)}, audits=jobs)
    return replace(found, **changes)


def job(state: JobState = JobState.RUNNING, ago: float = 30, **changes: Any) -> CheckJob:
    """A Job that was made so many minutes ago."""
    made = CheckJob(NAMES.audit, "job-1", audit_digest(WANTED), state, NOW - timedelta(minutes=ago))
    return replace(made, **changes)


def acts(observation: Observation) -> list[Action]:
    return [each for each in reconcile(observation).actions if isinstance(each, CreateCheck | DeleteJob)]


def judged(plan: Plan) -> Condition | None:
    return next((each for each in plan.status.conditions or () if each.type == MIRROR_EQUAL), None)


def events(plan: Plan) -> list[str]:
    said = {"RowsDiffer", "AuditNotDone", "Equal", "PipelineLate"}
    return [each.reason for each in plan.actions if isinstance(each, EmitEvent) and each.reason in said]


def test_one_job_in_each_window() -> None:
    due = reconcile(seen()).actions
    assert acts(seen()) == [CREATE]
    assert [type(each) for each in due[:2]] == [WriteStatus, CreateCheck], "only if nothing has changed meanwhile"
    for state in JobState:
        assert acts(seen(job(state, ago=29))) == [], "it was made after the window opened"
    assert acts(seen(job(JobState.SUCCEEDED, ago=61))) == [DELETE], "of the window before: the next follows it"
    assert acts(seen(job(JobState.RUNNING, ago=61))) == [], "its own limit of time ends it"
    assert acts(seen(job(JobState.SUCCEEDED, ago=61, terminating=True))) == []
    assert acts(replace(seen(), namespace_terminating=True)) == []


def test_outside_of_the_window_nothing_begins() -> None:
    late = bucket_ingest({"audit": {**AUDIT, "window": {"start": "12:02", "duration": "1h"}}})
    observation = after(seen(), wanted=late)
    assert acts(observation) == []
    assert reconcile(observation).look_again <= timedelta(seconds=15)
    assert acts(replace(observation, now=NOW + timedelta(minutes=2))) == [
        CreateCheck("audit", 1, audit_digest(late), late)
    ]
    sunday = {**AUDIT, "window": {**AUDIT["window"], "days": ["Sun"]}}  # type: ignore[dict-item]
    assert datetime(2026, 11, 21, tzinfo=UTC).strftime("%a") == "Sat"
    assert acts(after(seen(), wanted=bucket_ingest({"audit": sunday}))) == []
    there = {**AUDIT, "window": {"start": "21:30", "duration": "1h", "timeZone": "Asia/Tokyo"}}
    assert acts(replace(after(seen(), wanted=bucket_ingest({"audit": there})), now=NOW + timedelta(minutes=31))) != []


@pytest.mark.parametrize(
    "changes",
    [
        {"contact": Contact()},
        {"contact": Contact(report(), NOW - timedelta(minutes=1))},
        {"contact": Contact(report(last_commit=commit(9000), lag=report().lag.model_copy(update={"seconds": 9000})))},
        {"drivers": ()},
    ],
)
def test_a_pipeline_that_is_not_in_time_is_not_audited(changes: dict[str, Any]) -> None:
    assert acts(seen(**changes)) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (bucket_ingest({"audit": AUDIT, "suspend": True}), [DELETE]),
        (bucket_ingest(), [DELETE]),
        (bucket_ingest({"audit": {**AUDIT, "settle": "5m"}}), [DELETE]),
        (WANTED, []),
    ],
)
def test_a_job_that_is_not_wanted_any_more_is_deleted(wanted: Any, expected: list[Action]) -> None:
    assert acts(after(seen(job()), wanted=wanted)) == expected
    assert acts(after(seen(job(terminating=True)), wanted=wanted)) == []


def test_the_section_restarts_no_driver() -> None:
    assert change_since(input_of(bucket_ingest()), WANTED) is Change.NONE


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (job(), None),
        (job(JobState.SUCCEEDED), ("True", "Equal", "the table and its source are equal.")),
        (job(JobState.FAILED, report=termination(22, FOUND)), ("False", "RowsDiffer", FOUND)),
        (job(JobState.FAILED, report=termination(15, "no route")), ("Unknown", "AuditNotDone", "no route")),
        (job(JobState.FAILED, message="DeadlineExceeded"), ("Unknown", "AuditNotDone", "DeadlineExceeded")),
        (
            job(waiting=PodReason.CONFIG, message='secret "auditor" not found'),
            ("Unknown", "AuditNotDone", 'its pod does not start: secret "auditor" not found'),
        ),
    ],
)
def test_its_end_is_a_condition_and_what_is_not_good_an_event(
    end: CheckJob, expected: tuple[str, str, str] | None
) -> None:
    plan = reconcile(seen(end))
    found = judged(plan)
    if expected is None:
        assert (found, events(plan)) == (None, [])
        return
    value, reason, message = expected
    assert found is not None
    assert (found.status, found.reason, found.message) == (value, reason, f"Audit of 2026-11-21 11:30:00Z: {message}")
    assert events(plan) == ([] if value == "True" else [reason])
    again = reconcile(after(seen(end), status=plan.status))
    assert (judged(again), events(again)) == (found, [])


def test_what_was_found_stays_when_the_pod_is_gone_and_until_the_next_says_something_else() -> None:
    plan = reconcile(seen(job(JobState.FAILED, report=termination(22, FOUND))))
    for later in (job(JobState.FAILED, message="BackoffLimitExceeded"), None):
        observation = after(seen(*filter(None, [later])), status=plan.status)
        assert judged(reconcile(observation)) == judged(plan)
    next_one = reconcile(after(seen(job(JobState.SUCCEEDED, ago=10)), status=plan.status))
    assert getattr(judged(next_one), "reason", "") == "Equal"
    assert judged(reconcile(after(seen(), status=plan.status, wanted=bucket_ingest()))) is None


LATE_WHYS = (
    ({"contact": Contact(report(), NOW - timedelta(minutes=1))}, "the driver does not commit in time"),
    (
        {"contact": Contact(report(lag=report().lag.model_copy(update={"seconds": 121})))},
        "input waits for longer than audit.settle, 2m",
    ),
    (
        {"contact": Contact(report(lag=report().lag.model_copy(update={"seconds": None})))},
        "input waits for longer than audit.settle, 2m",
    ),
    ({"contact": Contact(report(running_seconds=29 * 60))}, "the driver was restarted"),
)
DIFFERS = job(JobState.FAILED, report=termination(22, FOUND))


@pytest.mark.parametrize(("changes", "why"), LATE_WHYS)
def test_rows_that_differ_while_the_pipeline_is_late_are_no_alarm(changes: dict[str, Any], why: str) -> None:
    plan = reconcile(seen(DIFFERS, **changes))
    said = judged(plan)
    assert said is not None
    assert (said.status, said.reason, events(plan)) == ("Unknown", PIPELINE_LATE, [PIPELINE_LATE])
    assert said.message == f"Audit of 2026-11-21 11:30:00Z: {why}. What differs may be on its way."
    again = reconcile(after(seen(DIFFERS), status=plan.status))
    assert (judged(again), events(again)) == (said, []), "in time again, and it still says nothing"


@pytest.mark.parametrize(("changes", "why"), LATE_WHYS)
def test_lateness_is_remembered_while_it_runs_and_equal_is_still_a_proof(changes: dict[str, Any], why: str) -> None:
    runs = reconcile(seen(job(), **changes))
    assert why in getattr(judged(runs), "message", "")
    ended = reconcile(after(seen(DIFFERS), status=runs.status))
    assert (judged(ended), events(ended)) == (judged(runs), [])
    equal = reconcile(after(seen(job(JobState.SUCCEEDED)), status=runs.status))
    assert getattr(judged(equal), "reason", "") == "Equal"


@pytest.mark.parametrize(
    "end", [DIFFERS, job(JobState.FAILED, report=termination(15, "no route")), job(JobState.FAILED, message="Deadline")]
)
def test_what_ends_without_a_result_is_tried_again_a_quarter_of_the_window_later(end: CheckJob) -> None:
    late = reconcile(seen(end, contact=Contact(report(), NOW - timedelta(seconds=9)))).status
    assert acts(replace(after(seen(end), status=late), now=NOW - timedelta(seconds=1))) == []
    assert acts(after(seen(end), status=late)) == [DELETE]
    assert acts(after(seen(), status=late)) == [CREATE]
    for known in (DIFFERS, job(JobState.SUCCEEDED)):
        assert acts(after(seen(known), status=reconcile(seen(known)).status)) == []
    assert acts(replace(after(seen(end), status=late), now=NOW + timedelta(hours=1))) == [], "the window is over"


def test_equal_stays_though_its_pod_is_gone() -> None:
    equal = reconcile(seen(job(JobState.SUCCEEDED)))
    lost = job(waiting=PodReason.CONFIG, message="gone")
    assert judged(reconcile(after(seen(lost), status=equal.status))) == judged(equal)


def test_an_older_answer_of_the_driver_is_no_restart() -> None:
    before = Contact(report(running_seconds=30 * 60 - 5), read_at=NOW - timedelta(seconds=10))
    assert getattr(judged(reconcile(seen(DIFFERS, contact=before))), "reason", "") == "RowsDiffer"


def test_a_suspended_pipeline_waits_for_nothing() -> None:
    suspended = bucket_ingest({"audit": AUDIT, "suspend": True})
    assert judged(reconcile(after(seen(), wanted=suspended))) is None


def test_an_audit_without_a_result_does_not_end_the_alarm() -> None:
    older = replace(DIFFERS, created_at=NOW - timedelta(days=1))
    alarm = reconcile(seen(older, contact=Contact(report(running_seconds=10**6)))).status
    for later in (
        seen(job(JobState.FAILED, report=termination(15, "no route"))),
        seen(DIFFERS, contact=Contact(report(running_seconds=60))),
        seen(contact=Contact(report(), NOW - timedelta(minutes=1))),
        seen(refusals=(Refusal(NAMES.audit, "exceeded quota", NOW, "audit"),)),
    ):
        plan = reconcile(after(later, status=alarm))
        found = judged(plan)
        assert found is not None
        assert (found.status, found.message[:20], events(plan)) == ("False", "Audit of 2026-11-20 ", [])
    assert getattr(judged(reconcile(after(seen(job(JobState.SUCCEEDED)), status=alarm))), "reason", "") == "Equal"


def test_a_pipeline_that_is_late_when_the_window_opens_says_what_the_audit_waits_for() -> None:
    plan = reconcile(seen(contact=Contact(report(), NOW - timedelta(minutes=1))))
    found = judged(plan)
    assert found is not None
    said = "The audit waits for the pipeline: the driver does not commit in time."
    assert (found.status, found.reason, found.message, events(plan)) == ("Unknown", PIPELINE_LATE, said, [])


def test_a_refused_job_is_visible_and_tried_again() -> None:
    refusal = Refusal(NAMES.audit, "exceeded quota", NOW - REFUSED_REST / 2, "audit")
    plan = reconcile(seen(refusals=(refusal,)))
    assert acts(seen(refusals=(refusal,))) == []
    found = judged(plan)
    assert found is not None
    assert (found.status, found.reason, found.message) == (
        "Unknown",
        "AuditNotDone",
        "The Job is refused: exceeded quota",
    )
    assert acts(seen(refusals=(replace(refusal, at=NOW - REFUSED_REST),))) == [CREATE]


def test_a_paused_operator_makes_none() -> None:
    assert acts(after(seen(), annotations={PAUSE_ANNOTATION: "true"})) == []


def test_an_unknown_time_zone_is_refused() -> None:
    window = {**AUDIT, "window": {"start": "03:00", "duration": "1h", "timeZone": "Mars/Base"}}
    (problem,) = cluster_problems(bucket_ingest({"audit": window}))
    assert problem.field == "spec.audit.window.timeZone"
