"""The registry's section: the subject follows from it and the topic, as producers name it; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.spec.formats.format import Registry

REGISTRY = {"url": "http://registry:8081"}


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({}, "orders-value"),
        ({"subject": ":.shop:any"}, ":.shop:any"),
        ({"subjectStrategy": "RecordName", "recordName": "shop.Order"}, "shop.Order"),
        ({"subjectStrategy": "TopicRecordName", "recordName": "shop.Order"}, "orders-shop.Order"),
        ({"subjectStrategy": "RecordName", "subject": "mine"}, "mine"),
    ],
)
def test_the_subject_of_a_topic(fields: dict[str, Any], subject: str) -> None:
    registry = Registry.model_validate({"url": "https://registry.example.com:8081/apis/ccompat/v7", **fields})
    assert registry.subject_of("orders") == subject


def test_without_a_topic_only_a_topics_subject_is_unknown() -> None:
    assert Registry.model_validate({"url": "http://registry"}).subject_of(None) is None
    by_record = {"url": "http://registry", "subjectStrategy": "RecordName", "recordName": "shop.Order"}
    assert Registry.model_validate(by_record).subject_of(None) == "shop.Order"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"spec.format": {"type": "protobuf", "schema": "AAAA", "registry": REGISTRY}},
            "spec.format.messageName: is required with schema; allowed: a message's full name, such as "
            "com.example.Order",
            id="Protobuf without the message's name",
        ),
        pytest.param(
            {"spec.format": {"type": "protobuf", "schema": 'syntax = "proto3";', "messageName": "a.B"}},
            "spec.format.schema: is not Base64; allowed: what protoc --include_imports --descriptor_set_out writes, in "
            "Base64",
            id="Protobuf as text",
        ),
        pytest.param(
            {"spec.format": {"type": "avro", "messageName": "a.B", "registry": REGISTRY}},
            "spec.format.messageName: is for protobuf only; allowed: format.type protobuf",
            id="message of Avro",
        ),
        pytest.param(
            {"spec.format": {"type": "protobuf", "confluentSchemaId": 1, "schema": "AAAA", "messageName": "a.B"}},
            "spec.format.confluentSchemaId: is not allowed for protobuf; allowed: format.type avro",
            id="one schema's id of Protobuf",
        ),
        pytest.param(
            {"spec.format": {"type": "avro"}},
            "spec.format.schema: is required; allowed: text of 1 to 262144 characters, or a registry",
            id="neither schema nor registry",
        ),
        pytest.param(
            {"spec.format": {"type": "avro", "confluentSchemaId": 1, "registry": REGISTRY}},
            "spec.format.confluentSchemaId: is not allowed with registry, which knows every id; "
            "allowed: one of the two",
            id="one schema's id beside a registry",
        ),
        pytest.param(
            {
                "spec.source.kafka": {"bootstrapServers": "kafka:9092", "topicPattern": "orders.*"},
                "spec.format": {"type": "avro", "registry": REGISTRY},
            },
            "spec.format.registry.subject: is required: subjects are named after topics, and not exactly one topic is "
            "named; allowed: a subject, or format.schema",
            id="subject of no topic",
        ),
        pytest.param(
            {"spec.format": {"type": "avro", "registry": {**REGISTRY, "subjectStrategy": "RecordName"}}},
            "spec.format.registry.recordName: is required for subjectStrategy RecordName; "
            "allowed: format.schema, or subject",
            id="subject of no record",
        ),
        pytest.param(
            {"spec.format": {"type": "avro", "registry": {**REGISTRY, "recordName": "a.B"}}},
            "spec.format.registry.recordName: is for subjectStrategy RecordName and TopicRecordName without subject",
            id="record of a topic's subject",
        ),
        *(
            pytest.param(
                {"spec.format": {"type": "avro", "registry": {"url": url}}},
                f'spec.format.registry.url: is "{url}"; allowed: the registry\'s http or https URL without user, query '
                "and final slash, such as https://registry:8081",
                id=url,
            )
            for url in ("ftp://registry", "http://me:secret@registry", "http://registry/?a=b", "http://registry/")
        ),
    ],
)
def test_what_no_registry_can_serve_is_refused(
    problems: Callable[[dict[str, Any]], list[str]], changes: dict[str, Any], message: str
) -> None:
    assert problems(changes) == [message]
