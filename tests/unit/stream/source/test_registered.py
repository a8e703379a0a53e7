"""A micro-batch is written with a decoder that knows every id in it; who meets another one has it written again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.registered.wire_format import UnknownSchemaIds
from bucketingest.hudi.table.schema_evolution import Evolution
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.credentials import Credentials
from bucketingest.registry.errors import GaveWay
from bucketingest.registry.lookups import Patience, SchemaLookups
from bucketingest.stream.errors import SchemaRefused
from bucketingest.stream.source import columns_schema as columns_schema_module
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.stream.source.messages import MessageDecoder, ids_in, marked_messages
from bucketingest.stream.source.registered import RegisteredMessages
from support.registry.http_registry import HttpRegistry, http_registry, respond

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
COLUMNS = pa.schema([("n", pa.int32())])


class Shape:
    """What `RegisteredMessages` asks of a `RowShape`, without Spark."""

    def registered_blocks(self, _: Any) -> RegisteredAvroDecoder:
        return RegisteredAvroDecoder(SCHEMA, COLUMNS, {})

    def message_decoder(self, blocks: RegisteredAvroDecoder) -> MessageDecoder:
        return MessageDecoder(blocks, "cannot be decoded", "has no value")


def message(schema_id: int, number: int = 1) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + bytes([2 * number])


def block(*values: bytes | None) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})]


class Writing:
    """Decodes a micro-batch as Spark's tasks do, and remembers how often."""

    def __init__(self, *values: bytes | None) -> None:
        self.batches = block(*values)
        self.times = 0
        self.details: list[str | None] = []

    def __call__(self, decoder: MessageDecoder) -> list[Any]:
        self.times += 1
        try:
            (made,) = marked_messages(self.batches, decoder, data="row", bad="bad", detail="detail")
        except UnknownSchemaIds as error:  # as Spark hands it on
            raise PySparkException(f"Job aborted: {UnknownSchemaIds.__name__}: {error}") from error
        self.details = made.column("detail").to_pylist()
        return []


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as found:
        yield found


@pytest.fixture
def registered(registry: HttpRegistry) -> RegisteredMessages:
    return registered_at(registry)


def registered_at(
    registry: HttpRegistry, columns: ColumnsSchema | None = None, *, stops: bool = False
) -> RegisteredMessages:
    """The rows of a micro-batch are here the batches themselves."""

    def find_ids(rows: Any) -> set[int]:
        (found,) = ids_in(rows, 1000)
        return set(found.column("id").to_pylist())

    client = RegistryClient(registry.url, Credentials)
    lookups = SchemaLookups(client, Patience(120, lambda _: None, lambda: 0))
    return RegisteredMessages(
        cast(Any, Shape()), cast(Any, None), lookups, columns=columns, stops=stops, find_ids=find_ids
    )


def write(registered: RegisteredMessages, writing: Writing, *, gives_way: bool = False) -> list[str | None]:
    registered.write(lambda: cast(Any, writing.batches), writing, lambda: gives_way)
    return writing.details


def test_the_first_micro_batch_is_looked_at_and_a_later_one_only_for_a_new_id(
    registry: HttpRegistry, registered: RegisteredMessages
) -> None:
    registry.register("a", SCHEMA)
    registry.register("b", SCHEMA)
    first, second, third = Writing(message(1)), Writing(message(1), message(2)), Writing(message(2), message(1))
    assert [write(registered, each) for each in (first, second, third)] == [[None], [None, None], [None, None]]
    assert (first.times, second.times, third.times) == (1, 2, 1)
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]


def test_an_id_that_the_registry_lacks_is_a_dead_letter_until_it_is_registered(
    registry: HttpRegistry, registered: RegisteredMessages
) -> None:
    writing = Writing(message(1), None)
    assert write(registered, writing) == ["cannot be decoded: byte 2: schema 1 is not in the registry", "has no value"]
    registry.register("a", SCHEMA)
    again = Writing(message(1))
    assert (write(registered, again), again.times) == ([None], 1)


def test_an_outage_makes_no_dead_letter_and_gives_way_to_a_stop(
    registry: HttpRegistry, registered: RegisteredMessages
) -> None:
    registry.misbehaves = lambda handler: respond(handler, 503, {})
    writing = Writing(message(1))
    with pytest.raises(GaveWay):
        write(registered, writing, gives_way=True)
    assert writing.times == 0


def test_another_error_of_spark_is_not_taken_for_a_new_id(
    registry: HttpRegistry, registered: RegisteredMessages
) -> None:
    def fails(_: MessageDecoder) -> list[Any]:
        raise PySparkException("executor lost")

    with pytest.raises(PySparkException, match="executor lost"):
        registered.write(lambda: cast(Any, block()), fails, lambda: False)


def test_ids_are_told_once_and_not_more_than_are_wanted() -> None:
    batches = [*block(message(3), None, b"{}", message(1)), *block(message(3), message(7))]
    (found,) = ids_in(batches, 1000)
    assert found.column("id").to_pylist() == [1, 3, 7]
    (few,) = ids_in(batches, 2)
    assert few.num_rows == 2


def test_all_messages_are_marked_with_row_and_reason() -> None:
    decoder = MessageDecoder(RegisteredAvroDecoder(SCHEMA, COLUMNS, {}), "cannot be decoded", "has no value")
    (made,) = marked_messages(block(None, b"{}"), decoder, data="row", bad="bad", detail="detail")
    assert made.column("row").to_pylist() == [None, None]
    assert made.column("bad").to_pylist() == [True, True]
    header = "Confluent's header: a zero byte and a schema's id"
    why = f"cannot be decoded: byte 1: it begins with 7b7d, which is not {header}"
    assert made.column("detail").to_pylist() == ["has no value", why]


def columns_schema(evolution: Evolution = "follow") -> ColumnsSchema:
    found = ColumnsSchema(evolution)
    found.text = SCHEMA
    return found


def record(*names: str) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": each, "type": "int"} for each in names]})


def test_new_fields_of_messages_are_told_once_and_before_anything_is_written(registry: HttpRegistry) -> None:
    for each in (SCHEMA, record("n", "a"), "no schema", record("b", "n")):
        registry.register("r", each)
    columns = columns_schema()
    registered = registered_at(registry, columns)
    assert write(registered, Writing(message(1))) == [None]
    writing = Writing(message(1), message(2) + b"\x04", message(3), message(4) + b"\x06")
    with pytest.raises(SchemaGrown) as asked:
        write(registered, writing)
    assert writing.details == []
    assert asked.value.changes == {2: ("a",), 4: ("b",)}
    assert [each["name"] for each in json.loads(asked.value.text)["fields"]] == ["n", "a", "b"]
    columns.grow(asked.value)
    assert write(registered_at(registry, columns), writing)[3] is None, "with them it is written"
    own = Writing(message(2) + b"\x04")
    assert write(registered_at(registry), own) == [None], "the resource has a schema of its own, which does not grow"


def test_messages_of_a_schema_whose_fields_the_table_cannot_take_are_dead_letters(registry: HttpRegistry) -> None:
    for each in (SCHEMA, record("n", "a")):
        registry.register("r", each)
    columns = columns_schema()
    writing = Writing(message(1), message(2) + b"\x04")
    with pytest.raises(SchemaGrown) as asked:
        write(registered_at(registry, columns), writing)
    columns.refuse(asked.value, "has a, which the table cannot take")
    refused = "cannot be decoded: byte 2: schema 2 has a, which the table cannot take"
    assert write(registered_at(registry, columns), writing) == [None, refused]
    with pytest.raises(SchemaRefused, match="schema 2 has a, which the table cannot take"):
        write(registered_at(registry, columns, stops=True), writing)


def test_fields_that_become_no_columns_are_named_once(registry: HttpRegistry, caplog: pytest.LogCaptureFixture) -> None:
    union = {"name": "u", "type": ["int", "string"]}
    fields = [{"name": "n", "type": "int"}, union, {"name": "N", "type": "int"}]
    registry.register("r", {**json.loads(SCHEMA), "fields": fields})
    registered = registered_at(registry, columns_schema())
    writing = Writing(message(1) + b"\x00\x04\x04")
    assert write(registered, writing) == write(registered, writing) == [None]
    (told,) = [vars(each)["fields"] for each in caplog.records if each.message == "fields of a schema are no columns"]
    assert told == ("u", "N")


def test_only_the_schema_that_the_table_cannot_take_is_refused(registry: HttpRegistry) -> None:
    """The others have new fields of their own, or the same as the refused one."""
    for each in (SCHEMA, record("n", "a", "bad"), record("n", "b"), record("n", "a")):
        registry.register("r", each)
    columns = columns_schema()
    writing = Writing(message(1), message(2) + b"\x04\x04", message(3) + b"\x06", message(4) + b"\x06")
    changes = []
    for _ in range(5):
        try:
            found = write(registered_at(registry, columns), writing)
            break
        except SchemaGrown as asked:
            changes.append(asked.changes)
            if any("bad" in paths for paths in asked.changes.values()):
                columns.refuse(asked, "has bad, which the table cannot take")
            else:
                columns.grow(asked)
    assert changes == [{2: ("a", "bad"), 3: ("b",)}, {2: ("a", "bad")}, {3: ("b",), 4: ("a",)}]
    assert [each["name"] for each in json.loads(columns.text)["fields"]] == ["n", "b", "a"]
    refused = "cannot be decoded: byte 2: schema 2 has bad, which the table cannot take"
    assert found == [None, refused, None, None]


def test_a_schema_that_cannot_be_read_stops_the_query_if_that_is_asked_for(registry: HttpRegistry) -> None:
    registry.register("r", SCHEMA)
    registry.register("r", json.dumps({**json.loads(SCHEMA), "fields": [{"name": "n", "type": "string"}]}))
    registered = registered_at(registry, stops=True)
    assert write(registered, Writing(message(1))) == [None]
    writing = Writing(message(2))
    with pytest.raises(SchemaRefused, match="schema 2 cannot be read with the table's: field n is string and cannot"):
        write(registered, writing)
    assert writing.details == []


def test_a_schema_that_would_make_too_many_columns_is_refused_and_others_are_not(
    registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_schema_module, "COLUMNS_MAX", 4)
    deep = {"name": "s", "type": {"type": "record", "name": "S", "fields": json.loads(record("x", "y", "z"))["fields"]}}
    many = {**json.loads(SCHEMA), "fields": [*json.loads(SCHEMA)["fields"], deep]}
    for each in (SCHEMA, many, record("n", "a")):
        registry.register("r", each)
    columns = columns_schema()
    writing = Writing(message(1), message(2) + b"\x02\x02\x02", message(3) + b"\x04")
    with pytest.raises(SchemaGrown) as asked:
        write(registered_at(registry, columns), writing)
    assert asked.value.changes == {3: ("a",)}
    columns.grow(asked.value)
    found = write(registered_at(registry, columns), writing)
    why = "schema 2 would make 5 columns, with the fields inside them, and no table grows to more than 4; give"
    assert found[0] is found[2] is None
    assert found[1] is not None
    assert why in found[1]


def test_columns_that_do_not_grow_keep_what_they_have_and_what_is_not_read_is_named(
    registry: HttpRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    for each in (record("n", "a"), json.dumps({**json.loads(SCHEMA), "fields": [{"name": "n", "type": "long"}]})):
        registry.register("r", each)
    writing = Writing(message(1) + b"\x04", message(2))
    details = write(registered_at(registry, columns_schema("off")), writing)
    wider = (
        "cannot be decoded: byte 2: schema 2 cannot be read with the table's: field n is long and cannot be read as int"
    )
    assert details == [None, wider]
    assert [vars(each).get("fields") for each in caplog.records if "are no columns" in each.message] == [("a",)]
    with pytest.raises(SchemaGrown) as asked:
        write(registered_at(registry, columns_schema("additive")), writing)
    assert asked.value.changes == {1: ("a",)}
