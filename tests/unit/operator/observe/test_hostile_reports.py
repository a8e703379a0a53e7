"""A driver's report as a tenant may forge it: it is refused, or it is one that every reader can use."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from bucketingest.spec.job_report import (
    CatalogReport,
    CompactionWork,
    DamagedFile,
    FilesReport,
    InflightReport,
    LagReport,
    Pin,
    ProgressReport,
    RefusedSchema,
    SchemasReport,
    ServicesReport,
    SourceReport,
    StateReport,
    TableReport,
    TablesReport,
    UnknownColumn,
)
from bucketingest_operator.counts import Counts
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observation import Contact
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.passes import Memory
from support.operator.observations import NOW, UID, bucket_ingest, report, well

_WHOLE: Final = report(
    lag=LagReport(offsets=9, seconds=5),
    inflight=InflightReport(instant="20261121115950000", age_seconds=9),
    services=ServicesReport(
        log_files=1,
        log_bytes=1,
        oldest_log_seconds=1,
        compacting="20261121115950000",
        compacting_seconds=5,
        compactions=1,
        failures=1,
        last_failure="why",
        oldest_log_at=NOW,
        compacting_at=NOW,
        mode="auto",
        home="inline",
        too_large="a file group",
        why="small",
        last_compaction="20261121115950000",
        last_compaction_at=NOW,
        small_groups=1,
        pins=(Pin(service="clean", by="an instant", seconds=1),),
        damage=(DamagedFile(file="f", file_group="g", instant="i", problem="p"),),
        job=CompactionWork(compaction="20261121115950000", number=1, round=1, chunks=1, size=1),
    ),
    schemas=SchemasReport(
        refused_schemas=1, refused=(RefusedSchema(id=1, reason="r"),), growths=1, last_growth="a column"
    ),
    catalogs=(CatalogReport(catalog="hive", behind_since=NOW, failures=1, problem="away"),),
    state=StateReport(
        keys=1, state_bytes=1, file_groups=1, loaded_keys=1, unloaded_partitions=1, new_keys_in_logs=False
    ),
    files=FilesReport(
        changed_files=1, changed=("a",), unknown_columns=1, unknown=(UnknownColumn(column="c", file="f"),)
    ),
    source=SourceReport(
        bootstrap_servers="k:1",
        answers=False,
        answered_at=NOW,
        answering_seconds=0,
        unanswered_seconds=9,
        problem="away",
        open_transaction_seconds=1,
        open_transaction="t-0",
    ),
    tables=TablesReport(
        known=1,
        open=0,
        parked=1,
        gone=0,
        worst=(
            TableReport(
                topic="t",
                table="s3://lake/t",
                state="parked",
                reason="why",
                failures=1,
                again_seconds=2,
                lag=LagReport(offsets=9, seconds=5),
                rows=1,
                commits=1,
                last_commit_seconds=3,
            ),
        ),
    ),
).model_dump(mode="json", by_alias=True)


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for name, each in inner for found in _places(each, (*place, name)))][0 if place else 1 :]


def _put(at: Any, place: tuple[Any, ...], value: Any) -> None:
    """Put a value to a place, if an earlier one has not taken the place away."""
    for step in place[:-1]:
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(at, dict) or (isinstance(at, list) and place[-1] in range(len(at))):
        at[place[-1]] = value


_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(-1, 0, 2**53, 2**53 + 1, 10**4299, -(10**400), 1e10, 1e300, -1e300),
        *(float("nan"), float("inf"), float("-inf"), None, True, [], {}, "", "\x1b[2J\n", "x" * 10_000),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-21T11:59:00", "2026-11-21T11:59:00+14:00"),
        *("20261121115950000", "99999999999999999", "starting", "idle", "failed", "stopped"),
    ]
)


_FORGED: Final = {
    "a text": json.dumps("\x1b[2J" * 10_000),
    "digits": "9" * 4000,
    "a list": json.dumps(["x"] * 10_000),
    "more of the same": "",
}


def test_no_field_of_a_report_is_left_out_below() -> None:
    empty = [place for place in _places(_WHOLE) if _at(_WHOLE, place) in (None, [], {})]
    assert not empty


def _at(found: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        found = found[step]
    return found


@pytest.mark.parametrize("forged", _FORGED)
@pytest.mark.parametrize("place", _places(_WHOLE), ids=lambda place: ".".join(map(str, place)))
def test_every_field_of_a_report_is_short_and_plain_and_fits_the_status(place: tuple[Any, ...], forged: str) -> None:
    whole = json.loads(json.dumps(_WHOLE))
    at = whole
    for step in place[:-1]:
        at = at[step]
    more = json.dumps(at[place[-1]] * 1000 if isinstance(at[place[-1]], list) else at[place[-1]])
    at[place[-1]] = "HERE"
    try:
        said = ProgressReport.model_validate_json(json.dumps(whole).replace('"HERE"', _FORGED[forged] or more))
    except ValidationError:
        return
    found = json.loads(said.model_dump_json())
    assert all(
        abs(each) <= 2**53 for each in map(partial(_at, found), _places(found)) if isinstance(each, (int, float))
    )
    assert "\\u001b" not in said.model_dump_json()
    assert len(said.model_dump_json()) < 20_000
    reconcile(replace(well(), contact=Contact(said)))


@settings(max_examples=300, deadline=None)
@example([(("services", "home"), "")])
@given(st.lists(st.tuples(st.sampled_from(_places(_WHOLE)), _VALUES), min_size=1, max_size=4))
def test_no_report_ends_a_pass_or_a_scrape(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    forged = json.loads(json.dumps(_WHOLE))
    for place, value in changes:
        _put(forged, place, value)
    try:
        said = ProgressReport.model_validate_json(json.dumps(forged))
    except (ValidationError, ValueError):
        return
    seen = replace(well(), contact=Contact(said))
    reconcile(seen)
    reconcile(replace(seen, contact=Contact(said, NOW - timedelta(seconds=5))))
    counts = Counts()
    counts.note_report("p", said, seen.resource.status, from_its_start=True)
    shown(Memory(Talk("p", said, time.monotonic()), counts=counts))


def shown(memory: Memory, status: dict[str, Any] | None = None) -> dict[str, float]:
    """Samples of one resource's metrics by name, of those without further labels."""
    inventory = Inventory(lambda _uid: None, lambda _uid: None)
    inventory.take(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {
                "namespace": "ingest",
                "name": "orders",
                "uid": UID,
                "creationTimestamp": "2026-11-21T11:00:00Z",
                "resourceVersion": "1",
                "generation": 1,
            },
            "spec": bucket_ingest().spec.to_document(),
            "status": status or {},
        }
    )
    clocks = (datetime.now(UTC), time.monotonic())
    text = ResourceMetrics(inventory, lambda _uid: memory, lambda _namespace: True, lambda: clocks).text().decode()
    families = list(text_string_to_metric_families(text))
    return {each.name: each.value for family in families for each in family.samples if len(each.labels) == 2}


@pytest.mark.parametrize("value", ["9" * 4299, "NaN", "Infinity", "1e400", "90071992547409930"])
@pytest.mark.parametrize("field", ["rows", "runningSeconds", "rowsPerSecond"])
def test_a_number_that_is_none_is_no_report(field: str, value: str) -> None:
    text = json.dumps({**_WHOLE, field: "HERE"}).replace('"HERE"', value)
    with pytest.raises(ValidationError):
        ProgressReport.model_validate_json(text)


def test_a_time_that_passed_is_not_negative_after_a_step_of_a_clock() -> None:
    said = ProgressReport.model_validate_json(json.dumps({**_WHOLE, "lastReportAgeSeconds": -3.5}))
    assert said.last_report_age_seconds == 0


def test_a_terminal_obeys_no_text_of_a_report() -> None:
    said = ProgressReport.model_validate_json(json.dumps({**_WHOLE, "verdictReason": "a\x1b[2J\nb"}))
    assert said.verdict_reason == "a [2J b"


def test_one_resource_without_values_does_not_end_a_scrape() -> None:
    broken = Talk("p", report().model_copy(update={"lag": None}))
    broken.read_at = time.monotonic()
    memory = Memory(broken)
    shown(memory)
    assert memory.counts.errors == 1


def test_a_reason_cannot_forge_a_metric() -> None:
    when = "2026-11-21T11:00:00Z"
    reason = 'x"} 1\nbucketingest_operator_leader 1\n#'
    ready = {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": when}
    assert "bucketingest_operator_leader" not in shown(Memory(), {"conditions": [ready]})
