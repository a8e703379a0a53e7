from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pydantic
import pytest

from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.model import BucketIngest, BucketIngestSpec
from bucketingest.spec.reading.load import load_text, parse_object
from bucketingest.spec.status import Status

Build = Callable[..., dict[str, Any]]


def test_everything_but_source_format_path_and_key_has_a_default(document: Build) -> None:
    spec = parse_object(document()).spec
    assert spec.table.index.buckets == 64
    assert spec.table.partition_by == ()
    assert spec.table.memory_per_task == 256 * 1024**2
    assert spec.table.version == 9
    assert spec.table.lock.provider == "auto"
    assert spec.table.lock.lease_validity == timedelta(seconds=30)
    assert spec.commit.interval == timedelta(seconds=30)
    assert spec.commit.trigger == timedelta(seconds=2)
    assert spec.commit.max_retries == 5
    assert spec.spark.driver.cores == 1000
    assert spec.source.kafka is not None
    assert spec.source.kafka.starting_offsets == "earliest"


def test_a_resource_written_as_yaml_reads_back_equal(document: Build) -> None:
    changes = {
        "spec.commit.trigger": "once",
        "spec.commit.interval": "1h",
        "spec.health": {"maxCommitLag": "2h", "maxInflightAge": "90m"},
        "spec.slo": {"commitLatency": "80m", "freshness": "3h"},
        "spec.spark.driver.cores": "500m",
        "spec.table.index.hashFields": ["b"],
        "spec.table.memoryPerTask": "1.5Gi",
        "spec.transform.sql": "SELECT 'naïve\n😀' AS a FROM source",
    }
    resource = parse_object(document(changes))
    assert load_text(resource.to_yaml()) == resource
    assert BucketIngest.model_validate_json(resource.model_dump_json(by_alias=True)) == resource


def test_a_field_without_a_value_counts_as_absent(document: Build) -> None:
    with_null = document()
    with_null["spec"]["table"] |= {"partitionBy": None, "orderingField": None}
    assert parse_object(with_null) == parse_object(document())


def test_what_the_api_server_adds_is_left_out(document: Build) -> None:
    added = {
        "status": {"phase": "Running"},
        "metadata": {"name": "orders", "namespace": "ingest", "uid": "1", "generation": 3, "managedFields": [{}]},
    }
    assert parse_object(document(added)).pipeline == "ingest/orders"


def test_without_a_namespace_the_pipeline_is_its_name(document: Build) -> None:
    assert parse_object(document()).pipeline == "orders"


def test_paths_are_derived_next_to_the_table_never_inside(document: Build) -> None:
    resource = parse_object(document())
    assert resource.dead_letter_path == "s3://lake/orders_dead_letters"
    local = parse_object(document({"spec.table.path": "/lake/orders"}))
    assert local.checkpoint_path == "/lake/orders_checkpoints/orders"


def test_the_checkpoint_of_a_table_in_an_object_store_is_a_local_folder_that_may_be_lost(document: Build) -> None:
    in_namespace = parse_object(document({"metadata.namespace": "ingest"}))
    assert in_namespace.checkpoint_path == "/var/lib/bucketingest/checkpoints/ingest/orders"


def test_paths_that_are_given_win(document: Build) -> None:
    changes = {"spec.errors.deadLetterPath": "s3://lake/bad", "spec.checkpoint.path": "/tmp/check"}
    resource = parse_object(document(changes))
    assert (resource.dead_letter_path, resource.checkpoint_path) == ("s3://lake/bad", "/tmp/check")


def test_there_is_no_dead_letter_table_when_bad_rows_fail_the_job(document: Build) -> None:
    assert parse_object(document({"spec.errors.mode": "fail"})).dead_letter_path is None


def test_the_table_is_named_after_the_resource_in_a_way_that_avro_takes(document: Build) -> None:
    assert parse_object(document({"metadata.name": "eu-orders"})).table_name == "eu_orders"
    assert parse_object(document({"spec.table.name": "Orders"})).table_name == "Orders"


def test_hash_fields_come_in_the_order_of_the_record_key_as_hudi_takes_them(document: Build) -> None:
    assert parse_object(document()).hash_fields == ("a", "b")
    assert parse_object(document({"spec.table.index.hashFields": ["b", "a"]})).hash_fields == ("a", "b")
    assert parse_object(document({"spec.table.index.hashFields": ["b"]})).hash_fields == ("b",)


def test_without_a_record_key_a_row_is_known_by_the_place_of_its_message(document: Build) -> None:
    columns = {"offset": "_offset", "headers": "h", "topic": "_topic", "partition": "_partition"}
    resource = parse_object(document({"spec.table.recordKey": None, "spec.source.kafka.columns": columns}))
    assert resource.record_key == resource.hash_fields == ("_topic", "_partition", "_offset")
    assert parse_object(document({"spec.source.kafka.columns": columns})).record_key == ("a", "b")


def test_a_model_cannot_be_changed(document: Build) -> None:
    resource = parse_object(document())
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        resource.spec.table.path = "/tmp/other"  # type: ignore[misc]


def test_rules_between_fields_hold_however_the_model_is_made(document: Build) -> None:
    with pytest.raises(pydantic.ValidationError, match=r"is required for source\.kafka"):
        BucketIngestSpec.model_validate(document({"spec.format": None})["spec"])


def test_every_field_says_what_it_means() -> None:
    def without_words(node: dict[str, Any], path: str) -> list[str]:
        found = []
        for name, part in node.get("properties", {}).items():
            found += [] if part.get("description") else [f"{path}.{name}"]
            found += without_words(part, f"{path}.{name}")
        return found

    assert without_words(inlined_schema(BucketIngest), "") == []
    assert without_words(inlined_schema(Status), "status") == []
