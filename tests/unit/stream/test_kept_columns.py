"""A start goes on with the columns by which its pipeline's last commit read messages, also without the registry."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.registered.subjects import registry_client, to_keep, with_columns, with_readers_schema
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.registry.lookups import Patience
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.source import inputs as module
from bucketingest.stream.source.shape import RowShape
from support.jobs.stream_runs import Lake
from support.registry.http_registry import http_registry
from support.tables.local_writer import LocalWriter

ORDER = {"type": "record", "name": "Order", "fields": [{"name": each, "type": "string"} for each in ("id", "old")]}


def test_the_last_commit_says_the_columns_and_no_registry_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    taken: list[BucketIngest | None] = []
    monkeypatch.setattr(module, "prepared", lambda _: nullcontext())
    monkeypatch.setattr(module, "RegisteredMessages", lambda *_, **__: None)

    def planned(shape: RowShape, _: object) -> RowShape:
        taken.append(shape.resource)
        return shape

    with http_registry() as registry:
        registry.register("orders-value", ORDER)
        format_: dict[str, Any] = {"type": "avro", "registry": {"url": registry.url}}
        given = Lake(tmp_path).resource(kafka, table={"recordKey": ["id"]}, format=format_)
        assert given.spec.format is not None
        assert given.spec.format.registry is not None
        first = with_readers_schema(given, registry_client(given.spec.format.registry), Patience(seconds=0))
    assert first.spec.format is not None
    text = first.spec.format.columns_text
    schema = columns_of(read_reader(text))
    written = LocalWriter(
        Path(given.spec.table.path),
        TableDefinition("orders", ("id",), buckets=4),
        schema,
        pipeline=given.metadata.name,
        read_as=to_keep(with_columns(first, text)),
    )
    written.commit(pa.Table.from_pylist([{"id": "a", "old": "x"}], schema))
    unused: Any = None
    inputs = module.inputs_of(unused, given, unused, ProgressBoard(), planned=planned)  # the registry is down
    next(inputs.versions)()
    assert taken == [first]
    assert inputs.columns is not None
    assert inputs.columns.text == text
