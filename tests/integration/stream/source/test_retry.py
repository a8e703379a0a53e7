"""Dead letters of a real topic are rows after a mend, in the table that hudi-rs and Spark's readers read."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.exit_codes import ExitCode
from bucketingest.lease.record import LeaseOwner, TableLeased
from bucketingest.lease.table_lease import TableLease
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.retry.letters import Asked
from bucketingest.stream.retry.start import RetryRefused, retry_resource
from devservers.registry import SchemaRegistry
from support.decoding.debezium_avro import KEY_SCHEMA, ORDERS, encoded, event_schema
from support.jobs.command_process import CommandProcess
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic

pytestmark = pytest.mark.kafka


def resource(lake: Lake, topic: Topic, amount: str = "INT", *, mode: str = "deadLetter", **table: Any) -> BucketIngest:
    return lake.resource(
        topic.source(maxOffsetsPerTrigger=3),
        format={"type": "json", "schema": f"id STRING, amount {amount}, gone BOOLEAN, place STRING"},
        transform={"sql": "SELECT id, CAST(amount AS BIGINT) AS amount, gone, place FROM source WHERE id <> 'none'"},
        table={"recordKey": ["id"], "partitionBy": ["place"], "deleteWhen": "gone", **table},
        errors={"mode": mode},
    )


def message(key: str, amount: int, *, gone: bool = False) -> tuple[bytes, bytes]:
    row = {"id": key, "amount": amount, "gone": gone, "place": f"p{key[-1]}"}
    return key.encode(), json.dumps(row).encode()


LARGE = 10**12


def amounts(lake: Lake) -> dict[str, int]:
    return {row["id"]: row["amount"] for row in lake.rows().to_pylist()}


@pytest.mark.parametrize("index", [{"buckets": 4}, {"type": "state"}], ids=["bucket", "state"])
def test_letters_are_rows_older_than_what_came_since(
    run: Runner, lake: Lake, new_topic: NewTopic, index: dict[str, Any]
) -> None:
    topic = new_topic(partitions=2)
    before, mended = resource(lake, topic, index=index), resource(lake, topic, "BIGINT", index=index)
    topic.send([message("k0", 0), message("k1", 1)], partition=0)
    topic.send([message("k5", 5)], partition=1)
    run.once(before)
    topic.send([message(f"k{number}", LARGE) for number in range(5)], partition=0)
    topic.send([message("k5", LARGE), message("none", LARGE)], partition=1)
    run.once(before)
    topic.send([message("k1", 11), message("k2", 0, gone=True), message("k3", LARGE + 3)], partition=0)
    run.once(before)
    assert (amounts(lake), len(lake.letters())) == ({"k0": 0, "k1": 11, "k5": 5}, 8)

    assert retry_resource(run.session, mended, Asked(), dry_run=True).retried == 8
    assert len(lake.letters()) == 8
    outcome = retry_resource(run.session, mended, Asked(), dry_run=False)
    assert (outcome.retried, outcome.stay) == (8, {})
    expected = {"k0": LARGE, "k1": 11, "k3": LARGE + 3, "k4": LARGE, "k5": LARGE}
    assert (amounts(lake), lake.letters()) == (expected, [])

    topic.send([message("k4", 44), message("k6", LARGE)], partition=0)
    run.once(mended)
    assert amounts(lake) == expected | {"k4": 44, "k6": LARGE}, "the next run goes on behind the retry"


def test_what_cannot_be_retried_is_refused(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    for wanted, why in (
        (resource(lake, topic, mode="fail"), r"spec\.errors\.mode is fail"),
        (lake.resource({"rate": {"rowsPerSecond": 1}}, table={"recordKey": ["value"]}), "only messages of Kafka"),
        (resource(lake, topic, deleteWhen="reverse(id) = 'x'"), "that only Spark can read or decode"),
    ):
        with pytest.raises(RetryRefused, match=why):
            retry_resource(run.session, wanted, Asked(), dry_run=False)
    lease = TableLease.acquire(open_storage(str(lake.table)), LeaseOwner("another"), wait=timedelta(0))
    try:
        with pytest.raises(TableLeased, match="another"):
            retry_resource(run.session, resource(lake, topic, lock={"onHeld": "exit"}), Asked(), dry_run=False)
    finally:
        lease.release()


def own(topic: Topic, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as only this topic has it."""
    return schema | {"doc": topic.name}


def test_events_whose_schema_was_not_in_the_registry(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry
) -> None:
    topic = new_topic()
    columns = {name: ORDERS[name] for name in ("customer", "amount")}
    first = schema_registry.register(f"{topic.name}-value", event_schema(columns))
    keys = schema_registry.register(f"{topic.name}-key", KEY_SCHEMA)
    wider = columns | {"extra": ORDERS["extra"]}
    # Other tests use the registry: equal schemas share an id, a schema of this topic alone gets the next one.
    following = schema_registry.register(f"{topic.name}-before", own(topic, event_schema(columns))) + 1
    wanted = lake.resource(
        topic.source(),
        format={"type": "avro", "registry": {"url": schema_registry.url}, "envelope": {"type": "debezium"}},
        table={},
    )
    all_old = encoded("postgres.orders", columns, first, keys)
    all_new = encoded("postgres.orders", wider, following, keys)
    topic.send([*all_old[:3], *all_new[3:7], *all_old[7:]], partition=0)
    run.once(wanted)
    letters = len(lake.letters())
    assert 0 < letters <= 4
    assert schema_registry.register(f"{topic.name}-value", own(topic, event_schema(wider))) == following
    assert "extra" not in lake.rows().column_names
    outcome = retry_resource(run.session, wanted, Asked(), dry_run=False)
    assert (outcome.retried, outcome.stay, lake.letters()) == (letters, {}, [])
    assert "extra" in lake.rows().column_names, "the table's columns have grown"
    run.once(wanted)
    rows = {row["id"]: row["customer"] for row in lake.rows().to_pylist()}
    assert rows == {1: "ann", 4: "cathy", 5: "dan", 6: "eve", 10: "after", 5_000_000_000: "big"}


def test_the_command_says_what_it_did(run: Runner, lake: Lake, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    topic.send([message("k0", LARGE), (None, b"no JSON"), message("k1", 1)])
    run.once(resource(lake, topic))
    file = tmp_path / "orders.yaml"
    mended = resource(lake, topic, "BIGINT")
    file.write_text(yaml.safe_dump(mended.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    for options, said in ((["--dry-run"], "would be rows now"), ([], "are rows now, in commits 2")):
        with CommandProcess("retry", file, *options, log=tmp_path / "log") as command:
            assert command.wait() == ExitCode.FINDINGS, command.output
            assert f"1 of 2 dead letters {said}" in command.output
            assert "1 stay: the record cannot be decoded" in command.output
    assert (amounts(lake), len(lake.letters())) == ({"k0": LARGE, "k1": 1}, 1)
