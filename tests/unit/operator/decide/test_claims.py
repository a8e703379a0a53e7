"""Exactly one resource has a table, from each resource's view."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from bucketingest.spec.status import Status
from bucketingest_operator.decide.claims import holder_before
from bucketingest_operator.decide.spec_changes import Change, change_since, digest, table_key
from bucketingest_operator.observation import Claim
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
