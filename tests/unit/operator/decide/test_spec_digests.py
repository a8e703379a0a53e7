"""An upgrade restarts nothing: a spec's digests are of what it says, and no later field or default changes them."""

from __future__ import annotations

from typing import Any

import pytest

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.table import IMMUTABLE_TABLE_FIELDS, Table
from bucketingest.spec.model import BucketIngestSpec
from bucketingest_operator.decide import spec_changes
from bucketingest_operator.decide.spec_changes import digest, fixed_digest
from support.operator.observations import bucket_ingest

CHANGES: list[dict[str, Any]] = [
    {"commit": {"interval": "45s"}},
    {"services": {"mode": "inline"}},
    {"slo": {"readOptimizedFreshness": "5m"}},
    {"spark": {"image": "registry/job:2"}},
    {"transform": {"sql": "SELECT 1"}},
]


def test_a_value_that_is_the_default_changes_no_digest() -> None:
    plain = bucket_ingest()
    written = bucket_ingest({"suspend": False, "commit": {"mode": "interval"}, "checkpoint": {}})
    assert (digest(written), fixed_digest(written)) == (digest(plain), fixed_digest(plain))


def test_what_only_the_operator_reads_changes_no_digest() -> None:
    services = {"whileSuspended": True, "compaction": {"job": {"deadline": "3h"}}}
    changed = bucket_ingest({"services": services, "slo": {"commitLatency": "99s"}})
    assert digest(changed) == digest(bucket_ingest())


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: str(next(iter(each))))
def test_a_change_of_what_a_driver_reads_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(bucket_ingest(change)) != digest(bucket_ingest())


def test_a_field_that_a_later_version_adds_changes_no_digest_while_it_has_its_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = bucket_ingest({"commit": {"interval": "45s"}})
    before = (digest(wanted), fixed_digest(wanted))
    plain = SpecModel.to_document

    def of_a_later_version(self: SpecModel, *, defaults: bool = True) -> dict[str, Any]:
        document = plain(self, defaults=defaults)
        later = {"later": "by default"} if defaults and isinstance(self, BucketIngestSpec | Table) else {}
        return {**document, **later}

    monkeypatch.setattr(SpecModel, "to_document", of_a_later_version)
    monkeypatch.setattr(spec_changes, "IMMUTABLE_TABLE_FIELDS", (*IMMUTABLE_TABLE_FIELDS, "later"))
    assert (digest(wanted), fixed_digest(wanted)) == before
