"""The resource of one table of many."""

from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.catalog.targets import targets
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


GLUE = {"region": "eu-west-1", "database": "lake"}


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
    assert table.dead_letter_path == "s3://lake/shop.orders-1~dead_letters"
    assert (table.spec.table.index.buckets, table.spec.table.write_tasks, table.spec.commit.mode) == (
        4,
        1,
        "checkpoint",
    )


def test_each_table_has_a_name_of_its_own_in_the_catalogs(many: Callable[[dict[str, Any]], BucketIngest]) -> None:
    catalogs = [{"glue": {**GLUE, "table": "lake_{topic}"}}, {"glue": GLUE}]
    resource = many({"spec.catalogs": catalogs, "spec.table.name": "T_{topic}"})

    found = targets(table_resource(resource, "Shop.orders-1"))

    assert [each.name for each in found] == ["lake_shop_orders_1", "t_shop_orders_1"]
    (name,) = {len(each.name) for each in targets(table_resource(resource, "x" * 249))}
    assert name == 128


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


def test_all_tables_have_one_transaction_topic(many: Callable[[dict[str, Any]], BucketIngest]) -> None:
    spec = {
        "spec.table.partitionBy": None,
        "spec.table.orderingField": None,
        "spec.format.envelope": {"type": "debezium"},
        "spec.commit.at": "transaction",
    }
    with pytest.raises(SpecError, match=r"spec\.commit\.transactionTopic: is missing: all tables have one"):
        many(spec)
    given = many({**spec, "spec.commit.transactionTopic": "shop.transaction"})
    assert table_resource(given, "shop.inv.t").spec.commit.at == "transaction"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.tables": None}, "spec.table.path: has {topic}, which is for a spec with tables"),
        ({"spec.table.path": "s3://lake/x"}, "spec.table.path: is the same for all of tables"),
        ({"spec.table.name": "orders"}, "spec.table.name: is the same for all of tables"),
        ({"spec.source.kafka.startingOffsets": "latest"}, "spec.source.kafka.startingOffsets: is not allowed"),
        (
            {"spec.catalogs": [{"glue": {"region": "r"}}, {"glue": {**GLUE, "table": "orders"}}]},
            "spec.catalogs[1].glue.table: is the same for all of tables",
        ),
        ({"spec.services.mode": "job"}, "spec.services.mode: is job, which is not allowed with tables"),
        ({"spec.services.whileSuspended": True}, "spec.services.whileSuspended: is not allowed with tables"),
        (
            {"spec.tables": {"overrides": [{"topics": "a", "format": OTHER_SECRET}]}},
            "spec.tables.overrides[0].format.registry.secretRef: is not that of format.registry",
        ),
        ({"spec.tables": {"overrides": [{"topics": "("}]}}, "spec.tables.overrides[0].topics: is no regular"),
        (
            {"spec.tables": {"overrides": [{"topics": "a{4294967296}"}]}},
            "spec.tables.overrides[0].topics: is no regular",
        ),
        (
            {"spec.tables": {"overrides": [{"topics": "(" * 500 + ")" * 500}]}},
            "spec.tables.overrides[0].topics: is no regular",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    many: Callable[[dict[str, Any]], BucketIngest], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as refused:
        many(changes)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("letters", "is_apart"),
    [
        ("s3://lake/{topic}_dead_letters", False),  # the topic x_dead_letters
        ("s3://lake/dead.{topic}", False),
        ("s3://lake/dead/{topic}", False),  # in the table of the topic dead
        ("s3://lake/{topic}/dead", False),
        ("s3://lake/{topic}~dead", True),
        ("s3://lake/~dead/{topic}", True),
        ("s3://other/{topic}", True),
    ],
)
def test_no_topic_has_its_table_where_another_one_has_its_dead_letters(
    many: Callable[[dict[str, Any]], BucketIngest], letters: str, *, is_apart: bool
) -> None:
    def made(path: str) -> BucketIngest:
        return many({"spec.table.path": path, "spec.errors.deadLetterPath": letters})

    if is_apart:
        assert table_resource(made("s3://lake/{topic}"), "x").dead_letter_path == letters.replace("{topic}", "x")
    else:
        with pytest.raises(SpecError, match="another topic's table"):
            made("s3://lake/{topic}")


def test_patterns_that_begin_or_end_otherwise_are_apart_only_if_no_topic_makes_them_equal(
    many: Callable[[dict[str, Any]], BucketIngest],
) -> None:
    def made(path: str, letters: str) -> BucketIngest:
        return many({"spec.table.path": path, "spec.errors.deadLetterPath": letters})

    made("s3://lake/tables/{topic}", "s3://lake/letters/{topic}")
    made("s3://lake/t.{topic}", "s3://lake/d.{topic}")
    made("s3://lake/{topic}.t", "s3://lake/{topic}.d")
    with pytest.raises(SpecError, match="another topic's table"):
        made("s3://lake/{topic}.t", "s3://lake/d.{topic}")
    with pytest.raises(SpecError, match="another topic's table"):
        made("s3://lake/tables/{topic}", "s3://lake/{topic}/dead")  # the topic tables, and the topic dead


def test_without_dead_letters_a_table_has_no_path_for_them(many: Callable[[dict[str, Any]], BucketIngest]) -> None:
    assert table_resource(many({"spec.errors.mode": "fail"}), "x").dead_letter_path is None


@pytest.mark.parametrize("name", [None, "raw_{topic}"])
def test_the_longest_name_of_a_topic_has_a_table(
    many: Callable[[dict[str, Any]], BucketIngest], name: str | None
) -> None:
    resource = many({"spec.source.kafka.topicPattern": ".*", "spec.table.name": name})
    assert len(table_resource(resource, "x" * 249).table_name) == 128
