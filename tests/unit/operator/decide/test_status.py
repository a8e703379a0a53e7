"""The status matches the CRD, keeps times of transitions, and does not grow."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bucketingest.spec.job_report import FilesReport, LagReport, ProgressReport, StateReport, UnknownColumn
from bucketingest.spec.status import ATTEMPTS_MAX, Lag, Status
from bucketingest_operator.decide.pass_state import Pass
from bucketingest_operator.decide.status import (
    CATALOG_SYNCED,
    CONDITIONS,
    MESSAGE_MAX,
    SCHEMAS_TAKEN,
    SOURCE_COMPLETE,
    Draft,
)
from support.operator.observations import (
    NOW,
    attempt,
    bucket_ingest,
    commit,
    report,
    resource,
    status_with,
    well,
)


def test_every_condition_is_always_there_with_the_generation_it_answers() -> None:
    draft = Draft(Status(), 7, NOW)
    draft.set("Ready", "True", "Well")
    status = draft.status()
    assert [each.type for each in status.conditions or ()] == list(CONDITIONS)
    ready = draft.condition("Ready")
    assert ready is not None
    assert ready.observed_generation == 7
    assert status.observed_generation == 7


def test_a_condition_keeps_its_time_while_its_value_stays() -> None:
    first = Draft(Status(), 1, NOW)
    first.set("Ready", "False", "Starting")
    later = Draft(first.status(), 2, NOW + timedelta(hours=1))
    later.set("Ready", "False", "StillStarting")
    ready = later.condition("Ready")
    assert ready is not None
    assert (ready.last_transition_time, ready.reason) == (NOW, "StillStarting")
    later.set("Ready", "True", "Well")
    ready = later.condition("Ready")
    assert ready is not None
    assert ready.last_transition_time == NOW + timedelta(hours=1)


def test_a_draft_without_changes_is_the_status_before() -> None:
    status = Draft(status_with(attempt(1)), 1, NOW).status()
    assert Draft(status, 1, NOW + timedelta(hours=1)).status() == status


def test_a_status_reads_back_as_it_was_written_and_stays_small() -> None:
    draft = Draft(Status(), 1, NOW)
    draft.take_report(report())
    for number in range(1, 50):
        draft.intend(number, f"orders-{number}")
        draft.change(started_at=NOW, ended_at=NOW, outcome="QueryFailed", message="x" * 10_000)
    for kind in CONDITIONS:
        draft.set(kind, "False", "QueryFailed", "y" * 10_000)
    status = draft.status()
    assert Status.from_document(status.to_document()) == status
    assert len(status.attempts or ()) == ATTEMPTS_MAX
    assert status.attempt == 49
    assert len(json.dumps(status.to_document())) < 20 * MESSAGE_MAX


NOT_KNOWN = LagReport(offsets=None, seconds=None)
OLD = {"last_commit": commit(5000)}
WAITS = report(**OLD, lag=LagReport(offsets=100, seconds=300))
CAUGHT_UP = report(**OLD, idle=True, lag=LagReport(offsets=0, seconds=0))
AFTER = timedelta(seconds=15)


def next_lag(before: Status, after: ProgressReport | None, now: datetime = NOW + AFTER) -> Lag:
    """The lag of the next pass; None: no driver answers."""
    draft = Draft(before, 1, now)
    if after is not None:
        draft.take_report(after)
    found = draft.status().lag
    assert found is not None
    return found


def first(seen: ProgressReport) -> Status:
    draft = Draft(Status(), 1, NOW)
    draft.take_report(seen)
    return draft.status()


def test_the_lag_is_the_time_since_when_input_waits_so_that_it_grows_without_being_written() -> None:
    since = NOW - timedelta(seconds=300)
    assert first(WAITS).lag == Lag(offsets=100, since=since)
    later = report(**OLD, lag=LagReport(offsets=100, seconds=316))
    assert next_lag(first(WAITS), later) == Lag(offsets=100, since=since)
    assert first(CAUGHT_UP).lag == Lag(offsets=0)


def test_ages_of_an_older_answer_count_from_when_it_was_read_so_that_it_changes_nothing() -> None:
    draft = Draft(first(WAITS), 1, NOW + timedelta(seconds=12))
    draft.take_report(WAITS, NOW)
    assert draft.status().lag == first(WAITS).lag


@pytest.mark.parametrize("silent", [None, report(**OLD, lag=NOT_KNOWN), report(last_commit=None, lag=NOT_KNOWN)])
def test_a_lag_that_nobody_can_know_is_not_shown_as_the_last_known_one(silent: ProgressReport | None) -> None:
    assert next_lag(first(WAITS), silent) == Lag(since=NOW - timedelta(seconds=300))
    # All was committed: since then rows may wait.
    assert next_lag(first(CAUGHT_UP), silent) == Lag(since=NOW + AFTER)
    draft = Draft(first(CAUGHT_UP), 1, NOW + AFTER)
    later = draft.status()
    assert next_lag(later, silent, NOW + 100 * AFTER) == Lag(since=NOW + AFTER)


def test_input_waits_until_a_commit_whichever_driver_saw_it_first() -> None:
    unknown = Draft(first(WAITS), 1, NOW + AFTER).status()
    since = NOW - timedelta(seconds=300)
    seen_again = report(last_commit=None, lag=LagReport(offsets=100, seconds=2))
    assert next_lag(unknown, seen_again).since == since
    committed = report(last_commit=commit(1), lag=LagReport(offsets=7, seconds=2))
    assert next_lag(unknown, committed, NOW).since == NOW - timedelta(seconds=2)
    assert next_lag(unknown, CAUGHT_UP).since is None


def test_what_was_committed_before_the_source_went_silent_does_not_wait() -> None:
    committed = report(last_commit=commit(60), lag=NOT_KNOWN)
    assert next_lag(first(WAITS), committed, NOW).since == NOW - timedelta(seconds=60)


def test_nothing_waits_after_a_completed_run() -> None:
    draft = Draft(first(CAUGHT_UP), 1, NOW + AFTER)
    draft.phase("Completed")
    assert draft.status().lag == Lag(offsets=0)


def test_the_time_of_an_inflight_instant_does_not_follow_the_clock() -> None:
    first = Draft(Status(), 1, NOW)
    first.take_report(report())
    later = Draft(first.status(), 1, NOW + timedelta(seconds=15))
    later.take_report(report())
    assert later.inflight == first.inflight


def test_the_status_says_where_new_keys_go_also_while_a_new_driver_does_not_know_it() -> None:
    state = StateReport(
        keys=9, state_bytes=144, file_groups=3, loaded_keys=5, unloaded_partitions=6, new_keys_in_logs=True
    )
    statuses = [Status()]
    for known in (None, state, None, state.model_copy(update={"new_keys_in_logs": False})):
        draft = Draft(statuses[-1], 1, NOW)
        draft.take_report(report(state=known))
        statuses.append(Status.from_document(draft.status().to_document()))
    shown = [None if each.index is None else each.index.to_document() for each in statuses[1:]]
    in_logs = {"newKeysInLogs": True, "unloadedPartitions": 6}
    assert shown == [None, in_logs, in_logs, in_logs | {"newKeysInLogs": False}]


def written(before: Status, offsets: int | None, commit_age: float = 90) -> Status:
    draft = Draft(before, 1, NOW)
    lag = LagReport(offsets=offsets, seconds=9)
    draft.take_report(report(lag=lag, last_commit=commit(commit_age).model_copy(update={"rows": int(commit_age)})))
    return draft.status()


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [(100, 100), (130, 100), (70, 100), (151, 151), (60, 60), (0, 0), (None, None)],
)
def test_between_commits_a_lag_is_written_only_if_it_differs_much(offsets: int | None, expected: int | None) -> None:
    first = written(Status(), 100)
    found = written(first, offsets).lag
    assert found is not None
    assert found.offsets == expected


def test_while_commits_come_a_lag_is_written_with_them_only() -> None:
    assert written(written(Status(), 100, 20), 100_000, 20).lag == written(Status(), 100, 20).lag
    assert written(written(Status(), 100, 61), 100_000, 61).lag == written(Status(), 100_000, 61).lag


def test_with_a_commit_the_lag_is_written_as_it_is() -> None:
    found = written(written(Status(), 100), 101, commit_age=3).lag
    assert found is not None
    assert found.offsets == 101


def test_all_that_is_not_read_of_a_source_of_files_is_named() -> None:
    unknown = (UnknownColumn(column="more", file="b.csv"),)
    files = FilesReport(changed_files=12, changed=("a.csv", "b.csv"), unknown_columns=1, unknown=unknown)
    draft = Draft(Status(), 1, NOW)
    draft.take_report(report(files=files))
    found = draft.condition("SourceComplete")
    assert found is not None
    assert (found.status, found.reason) == ("False", "FilesChanged")
    assert found.message == (
        "Changed after they were read, and not read again: 12, a.csv, b.csv. "
        "Not in source.files.schema, and not read: more (b.csv)."
    )


def test_a_condition_of_what_the_spec_no_longer_has_is_gone() -> None:
    before = Draft(Status(), 1, NOW)
    for kind in (SCHEMAS_TAKEN, CATALOG_SYNCED, SOURCE_COMPLETE):
        before.set(kind, "False", "Refused", "it was so")

    def kinds(spec: dict[str, Any]) -> list[str]:
        seen = replace(well(), resource=resource(bucket_ingest(spec), status=before.status()))
        return [each.type for each in Pass(seen).draft.status().conditions or ()]

    assert kinds({}) == list(CONDITIONS)
    kafka = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    format_ = {"type": "avro", "registry": {"url": "http://registry"}}
    assert kinds({"source": kafka, "format": format_}) == [*CONDITIONS, SCHEMAS_TAKEN]
