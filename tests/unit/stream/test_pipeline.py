"""From a resource to what the query needs to know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketRule
from bucketingest.hudi.table.table import StateRules
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import InvalidLocation
from bucketingest.stream.pipeline import Pipeline


def resource(namespace: str | None = None, table: dict[str, Any] | None = None, **spec: Any) -> BucketIngest:
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "my-orders", "namespace": namespace},
        "spec": {
            "source": {"rate": {"rowsPerSecond": 1}},
            "table": {"path": "/lake/orders", "recordKey": ["value"], **(table or {})},
            **spec,
        },
    }
    return BucketIngest.from_document(document)


def test_defaults_follow_from_the_tables_path_and_the_name() -> None:
    pipeline = Pipeline.of(resource())

    assert (pipeline.name, pipeline.definition.name) == ("my-orders", "my_orders")
    assert pipeline.table_url == "/lake/orders"
    assert pipeline.checkpoint_url == "/lake/orders_checkpoints/my-orders"
    assert pipeline.dead_letters_url == "/lake/orders_dead_letters"
    assert (pipeline.log_block, pipeline.memory_bytes, pipeline.write_tasks) == (None, 256 * 1024**2, None)
    assert (pipeline.trigger, pipeline.max_commit_retries, pipeline.delete_when) == (timedelta(seconds=2), 5, None)


def test_a_namespace_is_part_of_the_pipelines_identity() -> None:
    assert Pipeline.of(resource("team-a")).name == "team-a/my-orders"


@pytest.mark.parametrize(
    ("clean", "retention"),
    [
        ({}, Retention(retain=timedelta(hours=24))),
        ({"retain": "2h"}, Retention(retain=timedelta(hours=2))),
        ({"versions": 3}, Retention(versions=3)),
        ({"retain": None, "versions": 3}, Retention(versions=3)),
    ],
)
def test_superseded_files_stay_for_a_time_or_until_there_are_newer_versions(
    clean: dict[str, Any], retention: Retention
) -> None:
    assert Pipeline.of(resource(services={"clean": clean})).retention == retention


@pytest.mark.parametrize(
    ("given", "rules"),
    [({}, ArchiveRules()), ({"commits": 500, "retain": "24h"}, ArchiveRules(500, timedelta(hours=24)))],
)
def test_commits_stay_on_the_timeline_by_number_and_by_age(given: dict[str, Any], rules: ArchiveRules) -> None:
    assert Pipeline.of(resource(services={"archive": given})).archive == rules


def test_mode_fail_has_no_dead_letter_table() -> None:
    assert Pipeline.of(resource(errors={"mode": "fail"})).dead_letters_url is None


def test_every_field_of_the_table_reaches_its_definition() -> None:
    table = {
        "recordKey": ["value", "day"],
        "partitionBy": ["day"],
        "orderingField": "at",
        "deleteWhen": "gone",
        "hiveStylePartitioning": True,
        "version": 8,
        "logBlock": "avro",
        "memoryPerTask": "64Mi",
        "writeTasks": 3,
        "index": {
            "buckets": 7,
            "partitionBuckets": [{"pattern": "^2027-", "buckets": 9}],
            "hash": "murmur3",
            "hashFields": ["day"],
        },
        "properties": {"hoodie.datasource.x": "y"},
    }

    pipeline = Pipeline.of(resource(table=table, commit={"trigger": "once", "maxRetries": 0}))

    definition = pipeline.definition
    assert (definition.record_key, definition.partition_fields) == (("value", "day"), ("day",))
    assert (definition.ordering_field, definition.version) == ("at", 8)
    assert (definition.buckets, definition.hash, definition.hash_fields) == (7, "murmur3", ("day",))
    assert definition.bucket_rules == (BucketRule("^2027-", 9),)
    assert definition.hive_style_partitioning
    assert dict(definition.properties) == {"hoodie.datasource.x": "y"}
    assert (pipeline.log_block, pipeline.memory_bytes, pipeline.write_tasks) == ("avro", 64 * 1024**2, 3)
    assert (pipeline.delete_when, pipeline.trigger, pipeline.max_commit_retries) == ("gone", "once", 0)


def test_with_a_state_each_micro_batch_is_an_instant_and_takes_the_commit_interval() -> None:
    index = {"type": "state", "targetFileSize": "64Mi", "onDuplicateKeys": "report"}
    pipeline = Pipeline.of(resource(table={"index": index}, commit={"interval": "40s", "trigger": "2s"}))

    assert pipeline.definition.state == StateRules(64 * 1024**2, report_duplicates=True)
    assert (pipeline.trigger, pipeline.commit_interval) == (timedelta(seconds=40), None)
    assert Pipeline.of(resource()).definition.state is None
    table = {"index": {"type": "state", "global": True}, "partitionBy": ["value"]}
    assert Pipeline.of(resource(table=table)).definition.state == StateRules(is_global=True)


def test_with_new_keys_in_log_files_an_instant_takes_the_micro_batches_of_the_commit_interval() -> None:
    index = {"type": "state", "inserts": "log"}
    pipeline = Pipeline.of(resource(table={"index": index}, commit={"interval": "40s", "trigger": "2s"}))

    assert pipeline.definition.state == StateRules(inserts="log")
    assert (pipeline.trigger, pipeline.commit_interval) == (timedelta(seconds=2), timedelta(seconds=40))


@pytest.mark.parametrize("url", ["/scratch/checkpoint", "file:///scratch/checkpoint"])
def test_a_local_checkpoint_of_a_table_on_s3_is_opened_without_its_options(url: str) -> None:
    pipeline = replace(Pipeline.of(resource()), checkpoint_url=url, storage_options={"endpoint": "http://127.0.0.1:1"})

    assert pipeline.checkpoint().absolute("x") == "/scratch/checkpoint/x"


def test_a_checkpoint_in_an_object_store_gets_the_options() -> None:
    pipeline = replace(
        Pipeline.of(resource()), checkpoint_url="s3://lake/checkpoint", storage_options={"no such option": "x"}
    )

    with pytest.raises(InvalidLocation, match="no such option"):
        pipeline.checkpoint().exists("metadata")


@pytest.mark.parametrize(
    ("interval", "trigger", "seen"),
    [
        ("1s", "100ms", (False, timedelta(seconds=1), timedelta(seconds=0.1))),
        ("999ms", "100ms", (True, None, timedelta(seconds=0.999))),
        ("200ms", "200ms", (True, None, timedelta(seconds=0.2))),
        ("200ms", "once", (True, None, "once")),
    ],
)
def test_commits_less_than_a_second_apart_are_of_one_micro_batch_each(interval: str, trigger: str, seen: Any) -> None:
    pipeline = Pipeline.of(resource(commit={"interval": interval, "trigger": trigger}))

    assert (pipeline.is_quick, pipeline.commit_interval, pipeline.trigger) == seen
