"""The subject of the table's schema follows from the registry's section and the topic, as producers name it."""

from __future__ import annotations

from typing import Any

import pytest

from bucketingest.spec.formats.format import Registry


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
