"""Deletes arrive as a flag in the row or as the operation of a change event."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from support.jobs.stream_runs import Lake, NewTopic, Runner, messages
from support.oracle.compare import assert_same_rows

pytestmark = pytest.mark.kafka


def test_a_row_whose_flag_is_set_deletes_its_key_and_null_does_not(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": "id STRING, version BIGINT, gone BOOLEAN"},
        table={"recordKey": ["id"], "orderingField": "version", "deleteWhen": "gone"},
    )

    def row(key: str, version: int, gone: bool | None = None) -> dict[str, Any]:
        return {"id": key, "version": version, "gone": gone}

    first = [row("kept", 1), row("deleted in the same batch", 1), row("deleted in the same batch", 2, gone=True)]
    first += [
        row("deleted later", 1, gone=False),
        row("back again", 1),
        row("late delete", 5),
        row("never seen", 1, gone=True),
    ]
    second = [row("deleted later", 2, gone=True), row("back again", 2, gone=True), row("late delete", 4, gone=True)]
    third = [row("back again", 3), row("deleted later", 1)]
    for batch in (first, second, third):
        topic.send(messages(batch, "id"))
        progress = run.once(wanted)
    assert progress.last is not None

    expected = [row("kept", 1), row("back again", 3), row("late delete", 5)]
    schema = pa.schema([("id", pa.string()), ("version", pa.int64()), ("gone", pa.bool_())])
    assert_same_rows(lake.rows(), pa.Table.from_pylist(expected, schema), key=["id"])


def test_change_events_of_an_envelope_upsert_and_delete(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    image = "STRUCT<id: BIGINT, name: STRING>"
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": f"op STRING, ts_ms BIGINT, before {image}, after {image}"},
        transform={"sql": "SELECT coalesce(after.id, before.id) AS id, after.name, ts_ms, op FROM source"},
        table={"recordKey": ["id"], "orderingField": "ts_ms", "deleteWhen": "op = 'd'"},
    )

    def event(op: str, ts: int, before: Any, after: Any) -> tuple[bytes, bytes]:
        value = {"op": op, "ts_ms": ts, "before": before, "after": after, "source": {"table": "customers"}}
        return str((before or after)["id"]).encode(), json.dumps(value).encode()

    anna, berta, carl = ({"id": 1, "name": "Anna"}, {"id": 2, "name": "Berta"}, {"id": 3, "name": "Carl"})
    snapshot = [event("r", 1, None, anna), event("r", 1, None, berta), event("c", 2, None, carl)]
    changes = [event("u", 3, anna, {"id": 1, "name": "Änne"}), event("d", 4, berta, None), event("d", 5, carl, None)]
    changes += [event("c", 6, None, {"id": 3, "name": "Karl"})]
    for batch in (snapshot, changes):
        topic.send(batch)
        run.once(wanted)

    rows = {row["id"]: (row["name"], row["op"]) for row in lake.rows().to_pylist()}
    assert rows == {1: ("Änne", "u"), 3: ("Karl", "c")}
