"""The last spec that committed is read from its ConfigMap, once, and only while another one is wanted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import UpgradeStatus
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observe.last_good_reading import LastGoodReader
from bucketingest_operator.resource import Resource
from support.operator.observations import UID, bucket_ingest, input_of, resource, status_with

GOOD = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}})


def config_map(number: int = 3, spec: BucketIngest = GOOD) -> dict[str, Any]:
    """As the operator makes it."""
    return Manifests(spec, "ingest", UID, JobSettings()).config_map(number, input_of(spec))


class Lists:
    """Answers a list of ConfigMaps."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self.found = list(found)
        self.asked: list[str] = []

    async def list(self, kind: Kind, namespace: str, labels: str) -> tuple[list[dict[str, Any]], str]:
        assert not kind.metadata_only, "the spec is not in the metadata"
        self.asked.append(f"{namespace} {labels}")
        return self.found, "1"


def wants(spec: BucketIngest | None, attempt: int = 3) -> Resource:
    upgrade = UpgradeStatus(attempt=attempt, generation=1, digest=digest(GOOD))
    return replace(resource(status=status_with(upgrade=upgrade)), wanted=spec)


def read(api: Lists, *resources: Resource) -> list[BucketIngest | None]:
    async def ask() -> list[BucketIngest | None]:
        reader = LastGoodReader(api)  # type: ignore[arg-type]
        return [await reader.read(each) for each in resources]

    return asyncio.run(ask())


def test_it_is_read_once_while_another_spec_is_wanted() -> None:
    api = Lists(config_map())
    assert read(api, wants(bucket_ingest()), wants(bucket_ingest())) == [GOOD, GOOD]
    assert api.asked == [f"ingest bucketingest.dev/uid={UID},bucketingest.dev/attempt=3"]


def test_it_is_read_also_if_the_wanted_spec_cannot_be() -> None:
    assert read(Lists(config_map()), wants(None)) == [GOOD]


def test_it_is_not_read_while_it_is_the_wanted_one_nor_before_a_commit() -> None:
    api = Lists(config_map())
    assert read(api, wants(GOOD), resource(bucket_ingest())) == [None, None]
    assert api.asked == []


def test_another_attempt_is_read_anew() -> None:
    api = Lists(config_map(3), config_map(4))
    assert read(api, wants(bucket_ingest()), wants(bucket_ingest(), attempt=4)) == [GOOD, GOOD]
    assert len(api.asked) == 2


def foreign() -> dict[str, Any]:
    found = config_map()
    found["metadata"]["ownerReferences"] = []
    return found


def torn() -> dict[str, Any]:
    found = config_map()
    found["data"] = {"bucketingest.yaml": "kind: BucketIngest\nspec: {"}
    return found


@pytest.mark.parametrize(
    "found", [[], [foreign()], [torn()], [config_map(2)]], ids=["gone", "foreign", "torn", "other"]
)
def test_one_that_is_not_the_operators_or_cannot_be_read_is_none(found: list[dict[str, Any]]) -> None:
    assert read(Lists(*found), wants(bucket_ingest())) == [None]
