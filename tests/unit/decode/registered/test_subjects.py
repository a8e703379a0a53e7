"""The schema of the table's columns at a start: the spec's, the last commit's, or the newest of the subject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bucketingest.decode.registered.subjects import (
    VERSIONS_MAX,
    readers_schemas,
    registry_client,
    to_keep,
    with_readers_schema,
    writer_schema,
)
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.exit_codes import ExitCode
from bucketingest.registry.client import RegisteredSchema
from bucketingest.registry.errors import RegistryError, SubjectMissing, UnusableSchema
from bucketingest.registry.lookups import Patience
from bucketingest.spec.model import BucketIngest
from support.jobs.stream_runs import Lake
from support.registry.http_registry import HttpRegistry, http_registry

TEXT = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "a.N"}]})
NAMED = json.dumps({"type": "record", "name": "a.N", "fields": [{"name": "n", "type": "int"}]})
NO_PATIENCE = Patience(seconds=0)


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as found:
        yield found


def resource(registry: HttpRegistry, /, **format_: Any) -> BucketIngest:
    kafka = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    spec = {"type": "avro", "registry": {"url": registry.url}, **format_}
    return Lake(Path("/lake")).resource(kafka, table={"recordKey": ["id"]}, format=spec)


def fixed(given: BucketIngest) -> BucketIngest:
    assert given.spec.format is not None
    assert given.spec.format.registry is not None
    return with_readers_schema(given, registry_client(given.spec.format.registry), NO_PATIENCE)


def test_it_is_the_newest_of_the_subject_with_its_references(registry: HttpRegistry) -> None:
    registry.register("n", NAMED)
    registry.register("orders-value", '"string"')
    registry.register("orders-value", TEXT, references=[{"name": "a.N", "subject": "n", "version": 1}])
    found = fixed(resource(registry)).spec.format
    assert found is not None
    (field,) = json.loads(found.columns_text)["fields"]
    absent, named = field["type"]
    assert (absent, field["default"]) == ("null", None), "a message may lack it one day"
    inside = {"name": "n", "type": ["null", {"type": "int"}], "default": None}
    assert named["fields"] == [inside]


def test_that_of_the_spec_counts_and_the_registry_is_not_asked(registry: HttpRegistry) -> None:
    given = resource(registry, schema=TEXT)
    assert fixed(given) is given
    assert registry.requests == []


def test_a_subject_that_nobody_has_registered_yet_is_waited_for(registry: HttpRegistry) -> None:
    with pytest.raises(SubjectMissing, match="has no subject orders-value: its first producer") as missing:
        fixed(resource(registry))
    assert missing.value.exit_code is ExitCode.SOURCE_UNAVAILABLE


@pytest.mark.parametrize("kind", ["PROTOBUF", "JSON"])
def test_a_subject_of_another_format_is_refused(registry: HttpRegistry, kind: str) -> None:
    number = registry.register("orders-value", "syntax = ...", schemaType=kind)
    with pytest.raises(
        UnusableSchema, match=f"schema {number} of the subject orders-value is {kind}, not AVRO"
    ) as unusable:
        fixed(resource(registry))
    assert unusable.value.exit_code is ExitCode.BAD_INPUT


def test_what_the_registry_says_of_an_id_is_a_schema_or_a_reason() -> None:
    assert writer_schema(RegisteredSchema("{}", "AVRO"), "AVRO") == WriterSchema("{}")
    assert writer_schema(RegisteredSchema("{}", "JSON"), "AVRO").why_not == "is JSON, not AVRO"
    assert writer_schema(RegisteredSchema(TEXT, "AVRO", ("{",)), "AVRO").why_not.startswith("cannot be read")
    assert not writer_schema(RegisteredSchema("{}", "JSON", ("{",)), "JSON").why_not, "it may not matter"
    assert writer_schema(RegisteredSchema("{}", "AVRO"), "JSON").why_not == "is AVRO, not JSON"
    assert writer_schema(None, "JSON").why_not == "is not in the registry"


def test_a_start_goes_on_with_the_columns_of_the_last_commit_and_asks_no_registry(registry: HttpRegistry) -> None:
    registry.register("orders-value", NAMED)
    kept = to_keep(fixed(resource(registry)))
    registry.register("orders-value", {**json.loads(NAMED), "fields": [{"name": "other", "type": "int"}]})
    registry.requests.clear()
    next(_schemas(resource(registry), kept))
    assert registry.requests == []
    assert versions(registry, kept) == ["n", "other", "n"], "what the table does not take is not the end"
    other = resource(registry, registry={"url": registry.url, "subject": "other-value"})
    for given in (other, resource(registry, type="json"), resource(registry, envelope={"type": "debezium"})):
        registry.requests.clear()
        with pytest.raises(RegistryError):
            next(_schemas(given, kept))
        assert registry.requests, "they are other messages"


def test_with_its_columns_kept_a_start_needs_no_registry() -> None:
    with http_registry() as found:
        found.register("orders-value", NAMED)
        kept = to_keep(fixed(resource(found)))
    goes_on = next(_schemas(resource(found), kept)).spec.format
    assert goes_on is not None
    assert goes_on.columns_text == json.loads(kept)[-1]


def _schemas(given: BucketIngest, kept: str = "") -> Iterator[BucketIngest]:
    assert given.spec.format is not None
    assert given.spec.format.registry is not None
    return readers_schemas(given, registry_client(given.spec.format.registry), NO_PATIENCE, kept)


def versions(registry: HttpRegistry, kept: str = "") -> list[str]:
    found = _schemas(resource(registry), kept)
    return [json.loads(each.spec.format.columns_text)["fields"][-1]["name"] for each in found if each.spec.format]


def test_older_versions_come_behind_the_newest_but_for_those_that_can_be_no_columns(registry: HttpRegistry) -> None:
    """One is deleted, one is of another type, and one has a type inside itself."""
    chain = {"type": "record", "name": "C", "fields": [{"name": "next", "type": ["null", "C"]}]}
    for name in ("a", "b", "c"):
        registry.register("orders-value", {**json.loads(NAMED), "fields": [{"name": name, "type": "int"}]})
    registry.register("orders-value", "message M {}", schemaType="PROTOBUF")
    registry.register("orders-value", {**json.loads(NAMED), "fields": [{"name": "d", "type": chain}]})
    assert versions(registry) == ["c", "b", "a"]
    assert registry.asked[0] == "/subjects/orders-value/versions/latest"


def test_of_many_versions_the_newest_and_the_first_are_looked_at_and_the_newest_says_why_none_is_right(
    registry: HttpRegistry,
) -> None:
    for number in range(100):
        registry.register(
            "orders-value", {**json.loads(NAMED), "fields": [{"name": f"n{number}", "type": ["int", "string"]}]}
        )
    with pytest.raises(UnusableSchema, match=r"schema 100 of the subject orders-value .*: it cannot be"):
        versions(registry)
    asked = [each.rpartition("/")[2] for each in registry.asked]
    assert asked == ["latest", *map(str, range(99, 100 - VERSIONS_MAX, -1)), "90", "80", "60", "20", "1"]


def test_a_start_takes_the_first_version_after_any_number_that_the_table_does_not(registry: HttpRegistry) -> None:
    registry.register("orders-value", NAMED)
    for number in range(3 * VERSIONS_MAX):
        registry.register("orders-value", {**json.loads(NAMED), "fields": [{"name": f"n{number}", "type": "int"}]})
    assert versions(registry)[-1] == "n"
