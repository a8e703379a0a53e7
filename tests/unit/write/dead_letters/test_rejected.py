"""Which rows are rejected, why, and that each becomes one dead letter with all its values."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.storage import PathRoom, open_storage
from bucketingest.write.dead_letters.rejected import DEAD_LETTER_SCHEMA
from bucketingest.write.dead_letters.writer import (
    DeadLetterWriter,
    discard,
    publish,
    staged_path,
    write_dead_letters,
)
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.shuffle import DEAD_LETTERS, unpack
from bucketingest.write.rows.write_status import NO_WRITE_TASK, WriteStatus
from support.tables.write_plans import INSTANT, SCHEMA, WITH_DELETES, batch, definition, packed, row, write, write_plan

GOOD = [row("a"), row("b", region="us")]


def letters_of(rows: list[dict[str, Any]] | pa.RecordBatch, plan: WritePlan | None = None) -> list[dict[str, Any]]:
    """The dead letters that packing sends into the shuffle."""
    plan = plan or write_plan()
    batches = [rows if isinstance(rows, pa.RecordBatch) else batch(rows, plan.schema)]
    return [
        letter
        for message in packed([batches], plan).to_pylist()
        if message["bucket"] == DEAD_LETTERS
        for letter in unpack(pa.py_buffer(message["message"]), DEAD_LETTER_SCHEMA).to_pylist()
    ]


@pytest.mark.parametrize(
    ("bad", "reason", "detail"),
    [
        (row(None), "recordKey", "the record key (id) is null, empty or not UTF-8"),
        (row(""), "recordKey", "the record key (id) is null, empty or not UTF-8"),
        (row("k", region=".."), "partitionPath", "partition path '..' holds the level '..'"),
        (
            row("k", region=".hoodie"),
            "partitionPath",
            "partition path '.hoodie' holds the level '.hoodie': names with .hoodie are Hudi's own",
        ),
        (
            row("k", region=""),
            "partitionPath",
            "partition value '': Hudi's Spark reader would show null; replace it in spec.transform.sql",
        ),
        (row("k", at=None), "orderingField", "the ordering field (at) is null"),
        (row(None, region="..", at=None), "recordKey", "the record key (id) is null, empty or not UTF-8"),
    ],
)
def test_a_row_without_a_place_is_rejected_with_its_reason(bad: dict[str, Any], reason: str, detail: str) -> None:
    (letter,) = letters_of([GOOD[0], bad, GOOD[1]])
    assert (letter["instant"], letter["reason"], letter["detail"]) == (INSTANT, reason, detail)
    values = json.loads(letter["value"])
    assert {name: values[name] for name in ("id", "region")} == {name: bad[name] for name in ("id", "region")}
    assert [letter[name] for name in ("topic", "partition", "offset", "timestamp", "key")] == [None] * 5


def test_a_time_beyond_the_years_of_a_column_is_rejected_and_shown_as_a_number() -> None:
    rows = batch([row("a"), row("b"), row("c")])
    at = SCHEMA.get_field_index("at")
    values = pa.array([0, 1700000000000000000, 5], pa.int64()).view(SCHEMA.field("at").type)
    (letter,) = letters_of(rows.set_column(at, SCHEMA.field("at"), values))
    assert (letter["reason"], letter["detail"]) == (
        "time",
        "field at: time 1700000000000000000 is beyond the years 0001 to 9999",
    )
    assert json.loads(letter["value"])["at"] == 1700000000000000000


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.date32()])
def test_a_delete_that_hudi_takes_for_one_without_ordering_value_is_rejected(kind: pa.DataType) -> None:
    schema = pa.schema([("id", pa.string()), ("v", kind), (DELETE_COLUMN, pa.bool_())])
    numbers = pa.array([0, 0, 1, -1, 0], pa.int8()).cast(pa.int32())
    versions = numbers.view(kind) if pa.types.is_date32(kind) else numbers.cast(kind)
    columns = [pa.array(["a", "b", "c", "d", "e"]), versions, pa.array([True, False, True, True, None])]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    plan = write_plan(definition(partition_fields=(), ordering_field="v"), schema=schema)
    (letter,) = letters_of(rows, plan)
    assert (json.loads(letter["value"])["id"], letter["reason"]) == ("a", "orderingField")
    assert letter["detail"].startswith(
        "a delete with the ordering value 0 (or 1970-01-01) would also delete newer rows"
    )


def test_a_delete_whose_ordering_value_hudi_takes_as_it_is_is_written() -> None:
    rows = batch([row("a", at=0, deleted=True)], WITH_DELETES)
    assert letters_of(rows, write_plan(schema=WITH_DELETES)) == []


def test_each_refused_partition_path_has_its_own_reason_among_other_letters() -> None:
    rows = [row("a", region=""), GOOD[0], row(None), row("b", region="x" * 256), GOOD[1], row(None, region="")]
    letters = letters_of(rows, write_plan(room=PathRoom(level=255)))
    assert [letter["reason"] for letter in letters] == ["partitionPath", "recordKey", "partitionPath", "recordKey"]
    assert letters[0]["detail"].endswith("would show null; replace it in spec.transform.sql")
    assert letters[2]["detail"].endswith("has a level of more than 255 bytes, the file system's limit")


def test_good_rows_are_not_rejected() -> None:
    assert letters_of([*GOOD, row("c", region=None), row("d", region="x y%")]) == []


def test_a_row_whose_key_could_be_anothers_is_rejected() -> None:
    plan = write_plan(definition(record_key=("id", "region"), partition_fields=()))
    good, placeholder, separator = row("a,b:c", region="x"), row("__null__", region="x"), row("a,region:b", region="c")
    letters = letters_of([good, placeholder, separator, row("a", region="b,region:c")], plan)
    assert [(each["reason"], json.loads(each["value"])["id"]) for each in letters] == [
        ("recordKey", "__null__"),
        ("recordKey", "a,region:b"),
    ]
    assert letters[0]["detail"].startswith("the record key (id, region) would be that of another row: a value is ")


def test_without_an_ordering_field_a_null_in_the_column_is_a_value() -> None:
    assert letters_of([row("k", at=None)], write_plan(definition(ordering_field=None))) == []


def test_text_that_is_not_utf8_is_rejected_and_shown_with_its_bytes() -> None:
    bytes_ = pa.array([b"ok", b"\xff\xfek", b"z\xf0"], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 3, bytes_.buffers())
    rows = batch([row("x"), row("y"), row("z")])
    letters = letters_of(rows.set_column(0, "id", broken))
    assert [json.loads(letter["value"])["id"] for letter in letters] == [r"\xff\xfek", r"z\xf0"]
    assert {letter["reason"] for letter in letters} == {"recordKey"}


def test_every_type_of_column_can_be_shown() -> None:
    schema = SCHEMA.append(pa.field("raw", pa.binary())).append(pa.field("more", pa.list_(pa.decimal128(5, 2))))
    rows = pa.RecordBatch.from_pylist([row(None) | {"raw": b"\x00\xff", "more": [1]}], schema=schema)
    (letter,) = letters_of(rows, write_plan(schema=schema))
    assert json.loads(letter["value"]) == {
        "id": None,
        "region": "eu",
        "amount": 0,
        "at": "1970-01-01 00:00:00+00:00",
        "raw": "00ff",
        "more": ["1.00"],
    }


def test_rejected_rows_are_staged_and_counted_and_the_others_written() -> None:
    plan = write_plan()
    statuses = write([*GOOD, row(None, amount=3), row("", amount=4)], plan)
    (rejecting,) = [status for status in statuses if status.rejected]
    assert sum(status.rejected for status in statuses) == 2
    assert sum(status.upserts for status in statuses) == 2
    assert rejecting.sample == "recordKey: the record key (id) is null, empty or not UTF-8"
    assert rejecting.file_name.startswith(f"{INSTANT}_1_{rejecting.task}_0_")
    assert [letter["amount"] for letter in staged_values(plan, rejecting)] == [3, 4]


def staged_values(plan: WritePlan, status: WriteStatus) -> list[Any]:
    assert plan.dead_letters_url is not None
    path = staged_path(plan.pipeline, plan.instant_time, status.file_name)
    table = pq.read_table(io.BytesIO(open_storage(plan.dead_letters_url).get(path)))
    assert table.schema.names == DEAD_LETTER_SCHEMA.names
    return [json.loads(value) for value in table["value"].to_pylist()]


def test_without_a_dead_letter_table_rejected_rows_are_only_counted() -> None:
    (status,) = [found for found in write([row(None)], write_plan(dead_letters_url=None)) if found.rejected]
    assert (status.file_name, status.rejected, status.rows_received) == ("", 1, 1)


def test_messages_that_could_not_be_decoded_keep_what_they_came_with() -> None:
    plan = write_plan()
    undecoded = pa.RecordBatch.from_pylist(
        [{"reason": "decode", "detail": "no JSON", "topic": "t", "partition": 3, "offset": 8, "value": b"{"}]
    )
    (found,) = [
        each for sent in write_dead_letters([undecoded, undecoded.slice(1)], plan, 4) for each in sent.to_pylist()
    ]
    status = WriteStatus(**found)
    assert (status.task, status.rejected) == (NO_WRITE_TASK, 1)
    assert re.fullmatch(rf"{INSTANT}_1_decode-4_0_[0-9a-f]{{16}}\.parquet", status.file_name)
    assert status.sample == "decode: no JSON (t, partition 3, offset 8)"
    assert plan.dead_letters_url is not None
    data = open_storage(plan.dead_letters_url).get(staged_path(plan.pipeline, INSTANT, status.file_name))
    (letter,) = pq.read_table(io.BytesIO(data)).to_pylist()
    assert (letter["topic"], letter["partition"], letter["offset"], letter["value"]) == ("t", 3, 8, b"{")
    assert letter["instant"] == INSTANT


def test_nothing_undecodable_reports_nothing() -> None:
    assert list(write_dead_letters([], write_plan(), 0)) == []


def letters(*values: bytes) -> pa.RecordBatch:
    rows = [{"instant": INSTANT, "reason": "recordKey", "detail": "d", "value": value} for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=DEAD_LETTER_SCHEMA)


def staged(plan: WritePlan, *batches: pa.RecordBatch) -> list[WriteStatus]:
    writer = DeadLetterWriter(plan, "0", 0)
    for each in batches:
        writer.write(each)
    return writer.close()


def test_many_dead_letters_make_several_files() -> None:
    large = letters(b"x" * 9 * 1024**2)
    statuses = staged(write_plan(), large, large, large)
    assert [status.file_name.rpartition("_")[0] for status in statuses] == [f"{INSTANT}_1_0_{n}" for n in range(2)]
    assert [status.rejected for status in statuses] == [2, 1]


def test_a_twin_with_the_same_dead_letters_adopts_their_file() -> None:
    plan = write_plan()
    (first,) = staged(plan, letters(b"1", b"2"))
    (status,) = staged(plan, letters(b"1", b"2"))
    assert (first.adopted, status.adopted) == (False, True)
    assert status.file_name == first.file_name


def test_an_attempt_that_spreads_the_rows_otherwise_stages_files_of_its_own() -> None:
    plan = write_plan()
    (first,) = staged(plan, letters(b"1"))
    (second,) = staged(plan, letters(b"1", b"2"))
    assert first.file_name != second.file_name
    assert not second.adopted


def test_publishing_twice_shows_a_file_once_and_what_was_not_named_stays_hidden() -> None:
    plan = write_plan()
    (status,) = staged(plan, letters(b"1"))
    assert plan.dead_letters_url is not None
    storage = open_storage(plan.dead_letters_url)
    storage.create(staged_path(plan.pipeline, INSTANT, "late.parquet"), b"of a task that was cut off")
    for _ in range(2):
        publish(storage, plan.pipeline, INSTANT, [status.file_name])
    assert [info.path for info in storage.list_level("").objects] == [status.file_name]
    discard(storage, plan.pipeline, INSTANT)
    assert [info.path for info in storage.list("")] == [status.file_name]
