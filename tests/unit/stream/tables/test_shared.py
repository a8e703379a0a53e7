"""What Spark says of tables that are made alike is asked once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from bucketingest.spec.many_tables import table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.shape import Answers, RowShape
from bucketingest.stream.tables.shared import SharedShapes

ROWS = cast("DataFrame", None)
DOCUMENT: dict[str, Any] = {
    "apiVersion": "bucketingest.dev/v1alpha1",
    "kind": "BucketIngest",
    "metadata": {"name": "lake"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topicPattern": ".*"}},
        "format": {"type": "json", "schema": "id STRING, n BIGINT"},
        "table": {"path": "/lake/{topic}", "recordKey": ["id"]},
        "tables": {
            "overrides": [
                {"topics": "sql", "transform": {"sql": "SELECT id FROM source"}},
                {"topics": "key", "table": {"recordKey": ["n"]}},
                {"topics": "format", "format": {"type": "json", "schema": "id STRING"}},
            ]
        },
    },
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics for whose sake Spark was asked."""
    asked: list[str] = []

    def answered(shape: RowShape, _: DataFrame) -> RowShape:
        assert shape.resource is not None
        asked.append(shape.resource.spec.table.path)
        return replace(shape, answers=Answers(pa.schema([]), is_repeatable=True, settings={}))

    monkeypatch.setattr(RowShape, "answered", answered)
    return asked


def test_tables_that_differ_in_their_topic_only_share_what_spark_says(asked: list[str]) -> None:
    resource, shapes = BucketIngest.from_document(DOCUMENT), SharedShapes()
    made = {
        topic: shapes.of(RowShape(table_resource(resource, topic), None), ROWS)
        for topic in ("a", "b", "sql", "key", "format", "c")
    }
    assert asked == ["/lake/a", "/lake/sql", "/lake/key", "/lake/format"]
    for topic, shape in made.items():
        assert shape.resource == table_resource(resource, topic)


def test_what_spark_refuses_is_asked_again(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    resource, shapes = BucketIngest.from_document(DOCUMENT), SharedShapes()
    shape = RowShape(table_resource(resource, "a"), None)
    with monkeypatch.context() as broken:
        broken.setattr(RowShape, "answered", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            shapes.of(shape, ROWS)
    shapes.of(shape, ROWS)
    assert asked == ["/lake/a"]
