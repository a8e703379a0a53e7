"""Rows on their way through the shuffle: each arrives once, in its file group, in the order in which it came."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.bucket_rules.counts import BucketRule
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.placing import SPAN_BUCKETS
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.chunks import MESSAGE_BYTES
from bucketingest.write.rows.shuffle import (
    DEAD_LETTERS,
    SHUFFLE_DDL,
    SHUFFLE_ORDER,
    SHUFFLE_SCHEMA,
    message_buffers,
    pack,
    unpack,
)
from bucketingest.write.writer import share_of
from support.tables.write_plans import SCHEMA, WITH_DELETES, batch, definition, packed, row, write_plan

Place = tuple[str, int]
TINY = 4 * 400
"""A budget whose chunk share holds a few rows only."""


def arrived(sent: pa.Table, plan: WritePlan) -> dict[Place, list[dict[str, Any]]]:
    """Rows by (partition path, bucket), in the order in which the write tasks get them."""
    found: dict[Place, list[dict[str, Any]]] = {}
    for task in range(plan.tasks):
        for messages in share_of(task, sent):
            for message in messages.to_pylist():
                if message["bucket"] != DEAD_LETTERS:
                    rows = unpack(pa.py_buffer(message["message"]), plan.schema).to_pylist()
                    assert len(rows) == message["row_count"]
                    counts = np.frombuffer(message["bucket_counts"], np.int32).tolist() or [len(rows)]
                    assert sum(counts) == len(rows)
                    left = iter(rows)
                    for bucket, count in enumerate(counts, message["bucket"]):
                        if count:
                            of_bucket = found.setdefault((message["partition_path"], bucket), [])
                            of_bucket += itertools.islice(left, count)
    return found


def expected(rows: list[dict[str, Any]], plan: WritePlan) -> dict[Place, list[dict[str, Any]]]:
    """The same by asking the index for one row after the other."""
    found: dict[Place, list[dict[str, Any]]] = {}
    file_ids = plan.file_ids
    assert isinstance(file_ids, FileIds)
    for each in rows:
        alone = batch([each], plan.schema)
        path = plan.rules.partition_path.paths(alone).paths[0].as_py()
        bucket = int(plan.rules.record_key.columns(alone).bucket_ids(file_ids.counts.default, plan.rules.hash)[0])
        found.setdefault((path, bucket), []).extend(alone.to_pylist())
    return found


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from([f"k{n}" for n in range(12)]) | st.text(min_size=1, max_size=5),
        region=st.sampled_from(["eu", "us", "a b", None]),
        amount=st.integers(0, 9),
        at=st.integers(0, 5),
    ),
    max_size=40,
)


@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 40), max_size=4),
    tasks=st.integers(1, 5),
    buckets=st.sampled_from([4, 23, 64, 200]),
    tiny=st.booleans(),
)
def test_every_row_arrives_once_in_its_place_and_in_order(
    rows: list[dict[str, Any]], cuts: list[int], tasks: int, buckets: int, tiny: bool
) -> None:
    plan = write_plan(definition(buckets=buckets), tasks=tasks, memory_bytes=TINY if tiny else 64 * 1024**2)
    edges = [0, *sorted(cuts), len(rows)]
    batches = [batch(rows[start:end]) for start, end in itertools.pairwise(edges)]
    assert arrived(packed([batches], plan), plan) == expected(rows, plan)


def test_the_rows_of_earlier_map_tasks_and_chunks_come_first() -> None:
    plan = write_plan(memory_bytes=TINY, tasks=3)
    tasks = [[batch([row("k", amount=100 * task + n)]) for n in range(50)] for task in range(3)]
    sent = packed(tasks, plan)
    assert len(set(sent["number"].to_pylist())) > 3
    (amounts,) = ([found["amount"] for found in rows] for rows in arrived(sent, plan).values())
    assert amounts == [100 * task + n for task in range(3) for n in range(50)]


def test_a_long_part_goes_into_several_messages_none_of_them_large() -> None:
    plan = write_plan(definition(buckets=1))
    long = "x" * (MESSAGE_BYTES // 8)
    rows = [row(f"{long}{n}") for n in range(100)]
    sent = packed([[batch(rows)]], plan)
    assert sent.num_rows >= 100 * len(long) // MESSAGE_BYTES
    assert max(len(message) for message in sent["message"].to_pylist()) < 2 * MESSAGE_BYTES
    assert sent["number"].to_pylist() == list(range(sent.num_rows))
    assert arrived(sent, plan) == expected(rows, plan)


def test_a_short_part_of_a_chunk_is_one_message() -> None:
    plan = write_plan()
    rows = [row(f"k{n}", region=("eu", "us")[n % 2]) for n in range(100)]
    sent = packed([[batch(rows[:50]), batch(rows[50:])]], plan)
    places = list(zip(sent["partition_path"].to_pylist(), sent["bucket"].to_pylist(), strict=True))
    assert len(places) == len(set(places)) == 8


def test_rows_of_successive_buckets_are_one_message() -> None:
    plan = write_plan(definition(buckets=200), tasks=1)
    rows = [row(f"k{n}", amount=n) for n in range(1000)]
    sent = packed([[batch(rows)]], plan)
    assert sent["bucket"].to_pylist() == list(range(0, 200, SPAN_BUCKETS))
    assert arrived(sent, plan) == expected(rows, plan)


def test_partitions_with_few_buckets_have_no_spans_beside_those_with_many() -> None:
    plan = write_plan(definition(buckets=400, bucket_rules=(BucketRule("us", 4),)), tasks=3)
    rows = [row(f"k{n}", region=("eu", "us")[n % 2]) for n in range(400)]
    sent = packed([[batch(rows)]], plan).to_pylist()
    assert {each["bucket"] % SPAN_BUCKETS for each in sent if each["partition_path"] == "eu"} == {0}
    assert {each["bucket"] for each in sent if each["partition_path"] == "us"} == {0, 1, 2, 3}
    assert all(bool(each["bucket_counts"]) != bool(each["file_id"]) for each in sent)


def test_a_span_of_many_rows_goes_in_messages_of_bounded_size() -> None:
    plan = write_plan(definition(buckets=128), tasks=1)
    rows = [row(f"k{n}{'x' * 800}", amount=n) for n in range(1000)]
    sent = packed([[batch(rows)]], plan)
    assert max(len(message) for message in sent["message"].to_pylist()) <= 1.1 * MESSAGE_BYTES
    assert sent.num_rows > 2 * 128 // SPAN_BUCKETS
    assert arrived(sent, plan) == expected(rows, plan)


def test_many_rows_of_a_file_group_go_in_messages_of_bounded_size_and_in_order() -> None:
    plan = write_plan(definition(buckets=1), tasks=1)
    rows = [row(f"k{n}", amount=n) for n in range(20_000)]
    sent = packed([[batch(rows)]], plan)
    sizes = [len(message) for message in sent["message"].to_pylist()]
    assert len(sizes) > 5
    assert max(sizes) <= 1.1 * MESSAGE_BYTES
    assert sent["number"].to_pylist() == list(range(len(sizes)))
    (found,) = arrived(sent, plan).values()
    assert [each["amount"] for each in found] == list(range(20_000))


def test_a_row_larger_than_a_message_is_a_message_of_its_own() -> None:
    plan = write_plan(definition(buckets=1), tasks=1)
    rows = [row(f"{n}" + "x" * 2 * MESSAGE_BYTES) for n in range(3)]
    sent = packed([[batch(rows)]], plan)
    assert sent["row_count"].to_pylist() == [1, 1, 1]


@pytest.mark.parametrize("batches", [[], [batch([])], [batch([]), batch([])]], ids=["none", "one", "two"])
def test_input_without_rows_sends_nothing(batches: list[pa.RecordBatch]) -> None:
    assert list(pack(batches, write_plan(), 0)) == []


def test_all_map_tasks_send_a_file_group_to_one_write_task() -> None:
    known = write_plan(tasks=5, partitions=PartitionNumbers.of(["eu", "us"]))
    for plan in (known, write_plan(tasks=5), pickle.loads(pickle.dumps(known))):
        rows = [row(f"k{n}", region=("eu", "us", "new")[n % 3]) for n in range(60)]
        # Each map task meets partitions and keys in another order.
        sent = packed([[batch(rows)], [batch(rows[::-1])], [batch(rows[20:] + rows[:20])]], plan)
        routes: dict[Place, set[int]] = {}
        for message in sent.drop_columns(["message"]).to_pylist():
            routes.setdefault((message["partition_path"], message["bucket"]), set()).add(message["route"])
        assert len(routes) == 12
        assert all(len(tasks) == 1 for tasks in routes.values())
        assert {task for tasks in routes.values() for task in tasks} == set(range(5))


def test_file_groups_beyond_16_bits_are_distinguished() -> None:
    plan = write_plan(definition(buckets=2**16), tasks=1)
    rows = [row(f"k{n // 4}", region=f"r{n % 2}", amount=n) for n in range(400)]
    sent = packed([[batch(rows)]], plan)
    places = list(zip(sent["partition_path"].to_pylist(), sent["bucket"].to_pylist(), strict=True))
    assert len(places) == len(set(places))
    assert arrived(sent, plan) == expected(rows, plan)


def test_a_column_that_the_input_lacks_is_null() -> None:
    plan = write_plan(schema=WITH_DELETES.insert(2, pa.field("note", pa.string())))
    (rows,) = arrived(packed([[batch([row("k", amount=5)])]], plan), plan).values()
    assert rows == [row("k", amount=5, deleted=None) | {"note": None, "_bucketingest_delete": None, "at": EPOCH}]


def test_a_column_that_the_table_lacks_is_left_out_and_the_order_does_not_matter() -> None:
    plan = write_plan()
    incoming = batch([row("k", amount=5)]).select(["at", "amount", "region", "id"]).append_column("more", pa.array([1]))
    (rows,) = arrived(packed([[incoming]], plan), plan).values()
    assert rows == [{"id": "k", "region": "eu", "amount": 5, "at": EPOCH}]


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_values_take_the_stored_types() -> None:
    berlin = pa.schema(
        [
            ("id", pa.string()),
            ("region", pa.string()),
            ("amount", pa.int16()),
            ("at", pa.timestamp("us", "Europe/Berlin")),
        ]
    )
    (rows,) = arrived(packed([[batch([row("k", amount=5, at=0)], berlin)]], write_plan()), write_plan()).values()
    assert rows == [{"id": "k", "region": "eu", "amount": 5, "at": EPOCH}]
    assert rows[0]["at"].utcoffset() == dt.timedelta(0)


def test_a_value_that_does_not_fit_the_stored_type_is_an_error_and_no_other_value() -> None:
    narrow = SCHEMA.set(2, pa.field("amount", pa.int32()))
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        packed([[batch([row("k", amount=2**40)])]], write_plan(schema=narrow))


def test_an_unpartitioned_table_has_one_empty_path() -> None:
    plan = write_plan(definition(partition_fields=()))
    assert {path for path, _ in arrived(packed([[batch([row(f"k{n}") for n in range(20)])]], plan), plan)} == {""}


def test_the_engines_words_for_the_columns_are_those_of_arrow() -> None:
    words = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string(), "BINARY": pa.binary()}
    columns = [column.split(" ") for column in SHUFFLE_DDL.split(", ")]
    assert pa.schema([(name, words[kind]) for name, kind in columns]) == SHUFFLE_SCHEMA
    assert set(SHUFFLE_ORDER) < set(SHUFFLE_SCHEMA.names)


def test_messages_are_found_in_any_part_of_a_batch() -> None:
    messages = [b"one", b"", b"three", b"four"]
    columns = [pa.nulls(4, kind) for kind in SHUFFLE_SCHEMA.types[:-1]]
    whole = pa.RecordBatch.from_arrays([*columns, pa.array(messages)], schema=SHUFFLE_SCHEMA)
    for part, wanted in ((whole, messages), (whole.slice(1, 2), messages[1:3]), (whole.slice(4), [])):
        assert [buffer.to_pybytes() for buffer in message_buffers(part)] == wanted
