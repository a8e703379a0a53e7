"""Specs to change: each test says only what it is about."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.spec.errors import SpecError
from bucketingest.spec.reading.load import parse_object

Document = dict[str, Any]

_KAFKA: Document = {
    "apiVersion": "bucketingest.dev/v1alpha1",
    "kind": "BucketIngest",
    "metadata": {"name": "orders"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}},
        "format": {"type": "json", "schema": "a STRING, b STRING"},
        "table": {"path": "s3://lake/orders", "recordKey": ["a", "b"]},
    },
}


@pytest.fixture
def document() -> Callable[..., Document]:
    """A right Kafka pipeline with some fields set: `document({"spec.commit.interval": "5s"})`; None takes one away."""

    def build(changes: dict[str, Any] | None = None) -> Document:
        built = copy.deepcopy(_KAFKA)
        for path, value in (changes or {}).items():
            *parents, last = path.split(".")
            node = built
            for name in parents:
                node = node.setdefault(name, {})
            node.pop(last, None)
            if value is not None:
                node[last] = value
        return built

    return build


@pytest.fixture
def problems(document: Callable[..., Document]) -> Callable[[dict[str, Any]], list[str]]:
    """The messages about a right Kafka pipeline after changes, without file and line."""

    def find(changes: dict[str, Any]) -> list[str]:
        try:
            parse_object(document(changes))
        except SpecError as error:
            return str(error).split("\n")
        return []

    return find
