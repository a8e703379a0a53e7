"""A restart for another default image waits for a maintenance window, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.spec.fields.runtime import MaintenanceWindow
from bucketingest.spec.reading.load import parse_object
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import cluster_problems, digest, with_image
from bucketingest_operator.decide.upgrade.maintenance import next_opening
from bucketingest_operator.observation import Contact, Observation
from support.operator.observations import after, bucket_ingest, input_of, well
from support.operator.plans import condition, kinds
from support.operator.preflights import stops
from support.operator.probation import starts

NIGHT = {"days": ["Sat", "Sun"], "start": "01:00", "duration": "3h", "timeZone": "Europe/Berlin"}


def window(**changes: Any) -> MaintenanceWindow:
    return MaintenanceWindow.model_validate({**NIGHT, **changes})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-11-20T12:00:00", "2026-11-21T00:00:00"),  # Friday; Berlin is an hour ahead
        ("2026-11-20T23:59:59", "2026-11-21T00:00:00"),
        ("2026-11-21T00:00:00", None),
        ("2026-11-21T02:59:59", None),
        ("2026-11-21T03:00:00", "2026-11-22T00:00:00"),
        ("2026-11-22T03:00:00", "2026-11-28T00:00:00"),  # the next week
        ("2026-07-17T12:00:00", "2026-07-17T23:00:00"),  # two hours ahead
    ],
)
def test_a_window_opens_by_the_clock_of_its_zone(now: str, opens: str | None) -> None:
    assert next_opening([window()], at(now)) == (None if opens is None else at(opens))


def test_a_window_lasts_beyond_midnight_and_the_week() -> None:
    late = window(days=["Sun"], start="23:00", timeZone="UTC")
    assert next_opening([late], at("2026-11-23T01:59:59")) is None  # Monday
    assert next_opening([late], at("2026-11-23T02:00:00")) == at("2026-11-29T23:00:00")


def test_a_window_in_the_hour_that_clocks_skip_opens_after_it() -> None:
    skipped = window(days=[], start="02:30", duration="1h")
    assert next_opening([skipped], at("2026-03-29T00:00:00")) == at("2026-03-29T01:30:00")


def test_of_several_windows_the_next_counts_and_without_windows_it_is_always_open() -> None:
    other = window(days=["Wed"], start="12:00", timeZone="UTC")
    assert next_opening([window(), other], at("2026-11-23T00:00:00")) == at("2026-11-25T12:00:00")
    assert next_opening([], at("2026-11-23T00:00:00")) is None


@given(
    st.builds(
        window,
        days=st.lists(st.sampled_from(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]), max_size=3),
        start=st.times().map(lambda each: f"{each:%H:%M}"),
        duration=st.sampled_from(["5m", "3h", "24h"]),
        timeZone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]),
    ),
    st.datetimes(datetime(2011, 12, 20), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - as it wants them
)
def test_a_window_is_open_when_it_says_that_it_opens(each: MaintenanceWindow, now: datetime) -> None:
    opens = next_opening([each], now)
    if opens is not None:
        assert now < opens <= now + timedelta(days=9)
        assert next_opening([each], opens) is None
        assert next_opening([each], opens - timedelta(seconds=1)) == opens


# ------------------------------------------------------------------------------------------------- what it holds back
def pipeline(image: str = "job:2", **spec: Any) -> Any:
    windows = {"restart": {"maintenanceWindows": [NIGHT]}}
    return with_image(bucket_ingest({**windows, "upgrade": {"preflight": True}, **spec}), image)


OLD = pipeline("job:1")
OPEN = at("2026-11-22T01:00:00")


def rolled_out(wanted: Any = None, **changes: Any) -> Observation:
    """A driver that has committed with an image, and another default image of the operator since."""
    first = replace(well(), inputs={1: input_of(OLD)})
    runs = after(first, wanted=OLD, has_default_image=True)
    proven = after(runs, status=reconcile(runs).status, wanted=wanted or pipeline())
    return replace(proven, last_good=OLD, **changes)


def test_another_default_image_waits_for_the_window_and_the_driver_runs_on() -> None:
    plan = reconcile(rolled_out())
    assert condition(plan, "Reconciling").reason == "WindowWaiting"
    assert kinds(plan) == ["WriteStatus"]
    assert condition(plan, "Reconciling").status == "False"
    assert "waits for the window until 2026-11-22T00:00:00Z" in (condition(plan, "Reconciling").message or "")
    assert condition(plan, "Ready").status == "True"


def test_in_the_window_it_is_checked_like_an_edit() -> None:
    assert "CreateCheck" in kinds(reconcile(rolled_out(now=OPEN)))


def test_an_edit_does_not_wait() -> None:
    edited = pipeline(transform={"sql": "SELECT value FROM source"})
    assert "CreateCheck" in kinds(reconcile(rolled_out(edited)))
    own = rolled_out()
    own = replace(own, resource=replace(own.resource, has_default_image=False))
    assert "CreateCheck" in kinds(reconcile(own)), "the image was edited"


def test_a_restart_that_a_person_asks_for_does_not_wait() -> None:
    asked = rolled_out()
    asked = replace(asked, resource=replace(asked.resource, annotations={"bucketingest.dev/restart": "now"}))
    assert stops(reconcile(asked))


def test_a_driver_that_does_not_work_does_not_wait() -> None:
    unwell = rolled_out()
    conditions = tuple(
        each.model_copy(update={"status": "False"} if each.type == "Ready" else {})
        for each in unwell.resource.status.conditions or ()
    )
    status = unwell.resource.status.model_copy(update={"conditions": conditions})
    assert stops(reconcile(after(unwell, status=status)))


def test_a_lost_driver_comes_back_at_once_with_the_other_image() -> None:
    lost = rolled_out(drivers=(), contact=Contact(), live=True)
    closed = reconcile(lost)
    (started,) = starts(reconcile(after(lost, status=closed.status)))
    assert started.spec.spark.image == "job:2"


def test_without_windows_nothing_waits() -> None:
    assert "CreateCheck" in kinds(reconcile(rolled_out(pipeline(restart={}))))


def test_windows_restart_nothing_themselves() -> None:
    assert digest(pipeline()) == digest(pipeline(restart={}))


def test_a_zone_that_does_not_exist_is_a_problem_of_the_spec() -> None:
    for name in ("Europe/Atlantis", "Europe"):
        wanted = bucket_ingest({"restart": {"maintenanceWindows": [{**NIGHT, "timeZone": name}]}})
        (problem,) = cluster_problems(wanted)
        assert problem.field == "spec.restart.maintenanceWindows[0].timeZone"
    assert not cluster_problems(pipeline())


@pytest.mark.parametrize(
    "change", [{"start": "24:00"}, {"days": ["Someday"]}, {"timeZone": "../x"}, {"duration": "1m"}]
)
def test_a_window_that_is_none_is_refused(change: dict[str, Any]) -> None:
    document = bucket_ingest().to_document()
    document["spec"]["restart"] = {"maintenanceWindows": [{**NIGHT, **change}]}
    with pytest.raises(Exception, match="maintenanceWindows"):
        parse_object(document)
