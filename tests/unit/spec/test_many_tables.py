"""The resource of one table of many."""

from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.cli.connect.offline import offline_problems
from bucketingest.spec.errors import SpecError
from bucketingest.spec.many_tables import table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.reading.load import parse_object

MANY: dict[str, Any] = {
    "spec.source.kafka.topics": None,
    "spec.source.kafka.topicPattern": "shop[.].*",
    "spec.table.path": "s3://lake/{topic}",
    "spec.tables": {},
}


OTHER_SECRET = {"type": "avro", "registry": {"url": "http://registry", "secretRef": {"name": "other"}}}


@pytest.fixture
def many(document: Callable[..., dict[str, Any]]) -> Callable[[dict[str, Any]], BucketIngest]:
    return lambda changes: parse_object(document({**MANY, **changes}))


def test_a_table_is_a_pipeline_of_its_own(many: Callable[[dict[str, Any]], BucketIngest]) -> None:
    table = table_resource(many({}), "shop.orders-1")

    assert table.spec.tables is None
    assert table.spec.source.kafka is not None
    assert (table.spec.source.kafka.topics, table.spec.source.kafka.topic_pattern) == (("shop.orders-1",), None)
    assert (table.spec.table.path, table.table_name) == ("s3://lake/shop.orders-1", "shop_orders_1")
    assert (table.pipeline, many({}).pipeline) == ("orders.shop.orders-1", "orders")
    assert table.dead_letter_path == "s3://lake/shop.orders-1_dead_letters"
    assert (table.spec.table.index.buckets, table.spec.table.write_tasks, table.spec.commit.mode) == (
        4,
        1,
        "checkpoint",
    )


def test_the_first_override_that_matches_the_whole_topic_counts(
    many: Callable[[dict[str, Any]], BucketIngest],
) -> None:
    overrides = [
        {"topics": "shop", "table": {"recordKey": ["never"]}},
        {"topics": "shop[.]d.*", "table": {"recordKey": ["b"], "index": {"buckets": 2}, "pipeline": "other/name"}},
        {"topics": ".*", "format": {"type": "json", "schema": "a STRING, b STRING, c INT"}},
    ]
    resource = many({"spec.tables": {"overrides": overrides}})

    first, second = table_resource(resource, "shop.dim"), table_resource(resource, "shop.x")

    assert (first.record_key, first.spec.table.index.buckets, first.pipeline) == (("b",), 2, "other/name")
    assert first.spec.format is not None
    assert first.spec.format.schema_text == "a STRING, b STRING"
    assert second.record_key == ("a", "b")
    assert second.spec.format is not None
    assert second.spec.format.schema_text == "a STRING, b STRING, c INT"


def test_validate_finds_what_is_wrong_with_the_tables_of_an_override(
    many: Callable[[dict[str, Any]], BucketIngest],
) -> None:
    overrides = [{"topics": "x", "table": {"recordKey": ["nowhere"]}}, {"topics": "y", "table": {"partitionBy": ["a"]}}]

    found = offline_problems(many({"spec.tables": {"overrides": overrides}}))

    assert [each.field for each in found] == ["spec.tables.overrides[0], spec.table"]
    assert "nowhere" in found[0].wrong


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.tables": None}, "spec.table.path: has {topic}, which is for a spec with tables"),
        ({"spec.table.path": "s3://lake/x"}, "spec.table.path: is the same for all of tables"),
        ({"spec.table.name": "orders"}, "spec.table.name: is the same for all of tables"),
        ({"spec.source.kafka.startingOffsets": "latest"}, "spec.source.kafka.startingOffsets: is not allowed"),
        ({"spec.catalogs": [{"glue": {"database": "lake"}}]}, "spec.catalogs: is not allowed with tables"),
        ({"spec.services.mode": "job"}, "spec.services.mode: is job, which is not allowed with tables"),
        ({"spec.services.whileSuspended": True}, "spec.services.whileSuspended: is not allowed with tables"),
        (
            {"spec.tables": {"overrides": [{"topics": "a", "format": OTHER_SECRET}]}},
            "spec.tables.overrides[0].format.registry.secretRef: is not that of format.registry",
        ),
        ({"spec.tables": {"overrides": [{"topics": "("}]}}, "spec.tables.overrides[0].topics: is no regular"),
    ],
)
def test_what_cannot_be_is_refused(
    many: Callable[[dict[str, Any]], BucketIngest], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as refused:
        many(changes)
    assert words in str(refused.value)
