"""Exactly one resource has a table, from each resource's view."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.spec.status import Condition, LastCommit, Status
from bucketingest_operator.decide.claims import holder_before, still_writing, that_decide
from bucketingest_operator.decide.permission import may_write
from bucketingest_operator.decide.spec_changes import Change, change_since, digest, table_key
from bucketingest_operator.observation import Claim
from bucketingest_operator.resource import Resource
from support.operator.observations import NOW, bucket_ingest, input_of, resource


def test_from_each_view_exactly_one_resource_has_the_table() -> None:
    ages = [NOW, NOW, NOW - timedelta(seconds=1), NOW + timedelta(days=1)]
    claims = [Claim("ingest", f"orders-{n}", uid, at) for n, (uid, at) in enumerate(zip("dbca", ages, strict=True))]
    for order in itertools.permutations(claims):
        holders = [
            mine.uid
            for mine in order
            if holder_before(resource(uid=mine.uid, created_at=mine.created_at), [c for c in order if c != mine])
            is None
        ]
        assert holders == ["c"]


def test_of_equally_old_resources_the_lower_uid_has_the_table() -> None:
    other = Claim("ingest", "other", "a", NOW)
    assert holder_before(resource(uid="b", created_at=NOW), [other]) == other
    assert holder_before(resource(uid="0", created_at=NOW), [other]) is None


def test_one_that_has_started_is_not_stopped_for_one_of_the_same_second() -> None:
    later = Claim("ingest", "other", "a", NOW)
    at_work = resource(uid="b", created_at=NOW, status=Status(attempt=1))
    assert holder_before(at_work, [later]) is None
    (mine,) = [Claim(at_work.namespace, at_work.name, at_work.uid, NOW, started=True)]
    assert holder_before(resource(uid="a", created_at=NOW), [mine]) == mine
    assert holder_before(at_work, [replace(later, created_at=NOW - timedelta(seconds=1))]) is not None


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 2), *[st.booleans()] * 5),
        max_size=12,
        unique_by=lambda each: each[0],
    )
)
def test_three_of_many_claims_decide_the_same(found: list[Any]) -> None:
    claims = [
        Claim(
            "ingest",
            f"orders-{uid}",
            str(uid),
            NOW - timedelta(seconds=age),
            has_driver=has_driver,
            rests=rests,
            holds=holds,
            committed=committed,
            started=started,
        )
        for uid, age, has_driver, rests, holds, committed, started in found
    ]
    few = that_decide(claims)
    mine = resource(uid="5x", created_at=NOW)
    assert len(few) <= 3
    assert holder_before(mine, few) == holder_before(mine, claims)
    assert still_writing(few) == still_writing(claims)
    assert any(each.has_driver or each.holds for each in few) == any(each.has_driver or each.holds for each in claims)


OLDER = NOW - timedelta(days=2)


def claim_of(one: Resource) -> Claim:
    return Claim(
        one.namespace,
        one.name,
        one.uid,
        one.created_at,
        started=one.started,
        rests=one.rests,
        committed=one.committed,
        holds=one.holds,
    )


def in_phase(phase: str, *, committed: bool = False, reason: str = "Any", **changes: Any) -> Resource:
    commit = LastCommit(instant="20261121115900000", time=NOW, rows=1) if committed else None
    said = (Condition(type="Ready", status="False", reason=reason, last_transition_time=NOW),)
    status = Status.from_document({"phase": phase, "lastCommit": commit, "conditions": said})
    return resource(status=status, **{"uid": phase, "created_at": OLDER, **changes})


@pytest.mark.parametrize(
    "squatter",
    [
        in_phase("Suspended", wanted=bucket_ingest({"suspend": True})),
        resource(wanted=bucket_ingest({"suspend": True}), created_at=OLDER, uid="new"),
        replace(resource(created_at=OLDER, uid="invalid"), wanted=None),
        in_phase("Stalled"),
        in_phase("Completed"),
    ],
    ids=lambda each: each.uid,
)
def test_one_that_rests_keeps_nobody_from_the_table(squatter: Resource) -> None:
    assert holder_before(resource(), [claim_of(squatter)]) is None


def test_one_that_has_committed_comes_before_an_older_one_that_has_not() -> None:
    writer, other = in_phase("Running", committed=True, created_at=NOW), in_phase("Starting")
    assert holder_before(writer, [claim_of(other)]) is None
    assert holder_before(other, [claim_of(writer)]) is not None


def test_one_that_is_resumed_stops_none_that_works() -> None:
    resumed = in_phase("Suspended", committed=True)
    works = in_phase("Recovering", committed=True, created_at=NOW)
    assert holder_before(works, [claim_of(resumed)]) is None
    assert holder_before(resumed, [claim_of(works)]) is not None
    stopping = in_phase("Recovering", committed=True, created_at=NOW, reason="TableTaken")
    assert holder_before(resumed, [claim_of(stopping)]) is None


def test_one_that_is_invalid_now_keeps_the_table_while_its_driver_runs() -> None:
    edited = replace(in_phase("Running"), wanted=None)
    assert holder_before(resource(), [claim_of(edited)]) is not None
    assert holder_before(resource(), [claim_of(replace(in_phase("Suspended"), deleting=True))]) is not None


OWNERS = {"s3://lake/a": ("team-a",), "s3a://lake/a/shared/": ("team-a", "team-b"), "s3://lake": ()}


@pytest.mark.parametrize(
    ("path", "namespaces"),
    [
        ("s3://lake/a/orders", {"team-a"}),
        ("s3a://lake/a", {"team-a"}),
        ("s3://lake/a/shared/orders", {"team-a", "team-b"}),
        ("s3://lake/ab/orders", set()),
        ("s3://lake/orders", set()),
        ("s3://other/orders", {"team-a", "team-b", "team-c"}),
    ],
)
def test_the_longest_prefix_says_which_namespaces_may_write(path: str, namespaces: set[str]) -> None:
    assert {each for each in ("team-a", "team-b", "team-c") if may_write(OWNERS, path, each)} == namespaces
    assert may_write({}, path, "team-c")
    assert may_write({"s3://": ()}, "file:///data", "team-c")
    assert not may_write({"s3://": ()}, path, "team-c")


@pytest.mark.parametrize(
    ("one", "other"),
    [("s3a://lake/orders", "s3://lake/orders"), ("/data/orders", "file:///data/orders"), ("s3://l/o/", "s3://l/o")],
)
def test_one_table_in_two_spellings_is_one_table(one: str, other: str) -> None:
    assert table_key(one) == table_key(other)


def test_other_tables_are_other_tables() -> None:
    assert table_key("s3://lake/orders") != table_key("s3://lake/orders2")
    assert table_key("s3://lake/orders") != table_key("gs://lake/orders")


def test_defaults_that_are_written_out_are_no_change() -> None:
    written = bucket_ingest({"commit": {"mode": "interval", "interval": "30s"}, "spark": {"executor": {"cores": "2"}}})
    assert digest(written) == digest(bucket_ingest())


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ({}, Change.NONE),
        ({"deleteWhen": "value < 0"}, Change.RESTART),
        ({"index": {"buckets": 3}}, Change.REFUSED),
        ({"orderingField": "value"}, Change.REFUSED),
    ],
)
def test_changes_of_the_table_are_classified(table: dict[str, object], change: Change) -> None:
    changed = bucket_ingest({"table": {"path": "s3://lake/orders", "recordKey": ["value"], **table}})
    assert change_since(input_of(bucket_ingest()), changed) is change
