"""An upgrade restarts nothing: the digests of each release's specs stay as that release made them.

Each release adds a file to `releases`, made with its own code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.table import IMMUTABLE_TABLE_FIELDS, Table
from bucketingest.spec.model import BucketIngest, BucketIngestSpec
from bucketingest.spec.quantity import format_duration
from bucketingest.spec.reading.load import parse_object
from bucketingest_operator.decide import spec_changes
from bucketingest_operator.decide.spec_changes import digest, fixed_digest
from support.operator.observations import bucket_ingest

RELEASES = sorted((Path(__file__).parent / "releases").glob("*.yaml"))
FROZEN = [
    pytest.param(spec, id=f"{path.stem}-{spec['name']}")
    for path in RELEASES
    for spec in yaml.safe_load(path.read_text())
]
CHANGES: list[dict[str, Any]] = [
    {"commit": {"interval": "45s"}},
    {"services": {"mode": "inline"}},
    {"spark": {"image": "registry/job:2"}},
    {"transform": {"sql": "SELECT 1"}},
]


def parsed(spec: dict[str, Any]) -> BucketIngest:
    resource = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "any"}}
    return parse_object({**resource, "spec": spec})


@pytest.mark.parametrize("frozen", FROZEN)
@pytest.mark.parametrize("form", ["written", "filled"])
def test_the_specs_of_each_release_have_the_digests_that_it_gave_them(frozen: dict[str, Any], form: str) -> None:
    wanted = parsed(frozen[form])
    assert digest(wanted) == frozen["digest"]
    assert fixed_digest(wanted) == frozen["fixedDigest"]


@pytest.mark.parametrize("frozen", FROZEN)
def test_a_default_never_changes(frozen: dict[str, Any]) -> None:
    now = parsed(frozen["written"]).spec
    document = now.to_document()
    retain = now.services.clean.chosen_retain  # absent in the document, since there is also `versions`
    assert retain is not None
    document["services"]["clean"]["retain"] = format_duration(retain)
    assert_part_of(frozen["filled"], document)


def assert_part_of(before: Any, now: Any) -> None:
    if isinstance(before, dict):
        for name, value in before.items():
            assert_part_of(value, now[name])
    else:
        assert before == now


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
