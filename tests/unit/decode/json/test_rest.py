"""Members that the schema lacks are in one column."""

from __future__ import annotations

import json
import pickle
import random

import pyarrow as pa
import pytest

from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.rest import RestDecoder
from bucketingest.decode.message_columns import UnusableColumns, columns_of
from bucketingest.spec.formats.format import Format

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32()), ("_rest", pa.string())])


def rest(*messages: bytes | None) -> list[str | None]:
    decoder = pickle.loads(pickle.dumps(RestDecoder(SCHEMA)))
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    plain = JsonDecoder(SCHEMA.remove(2)).decode(pa.array(messages, pa.binary()))
    assert decoded.rows.select(["id", "n"]) == plain.rows
    assert decoded.refused == plain.refused
    return decoded.rows.column("_rest").to_pylist()


def test_values_are_as_they_were_written_and_known_members_are_not_there() -> None:
    assert rest(
        b'{"id": "a", "n": 1}',
        b'{"more": 1.50, "id": "b", "at": {"x": [1,  2]}, "n": 2}',
        b"no json",
        None,
        b'{"n": null, "big": 123456789012345678901234567890, "\\u00e9\\"": "\\ud83d\\ude00"}',
        b'{"id": "c", "twice": 1, "twice": 2, "ID": 3}',
    ) == [
        None,
        '{"more":1.50,"at":{"x": [1,  2]}}',
        '{"big":123456789012345678901234567890,"é\\"":"\\ud83d\\ude00"}',
        '{"twice":2,"ID":3}',
    ]


def test_random_messages_lose_nothing() -> None:
    draw = random.Random(1)
    values: tuple[object, ...] = (None, True, 1, -2.5, "text", "é\u2028", [], [1, {"x": None}], {}, {"y": {"z": "\t"}})
    known = {"id": ("a", None), "n": (1, None)}
    given = []
    for _ in range(500):
        names = draw.sample(["id", "n", "a", "b", "", "é", "_rest"], draw.randint(0, 5))
        given.append({name: draw.choice(known.get(name, values)) for name in names})
    lines = [json.dumps(each, ensure_ascii=draw.random() < 0.5).encode() for each in given]
    expected = [{name: value for name, value in each.items() if name not in known} for each in given]
    assert [{} if each is None else json.loads(each) for each in rest(*lines)] == expected


def test_what_cannot_be_kept_is_a_dead_letter() -> None:
    """A row without it, which nobody would miss, would be a loss in silence."""
    deep = b'{"id": "a", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    messages = pa.array([deep, b'{"id": "b"}'], pa.binary())
    decoded = RestDecoder(SCHEMA).decode(messages)
    assert decoded.rows.num_rows + len(decoded.refused) == 2
    assert decoded.rows.column("id").to_pylist()[-1:] == ["b"]


def test_the_column_is_the_last_one_and_no_other_may_have_its_name() -> None:
    def columns(ddl: str) -> list[str]:
        return columns_of(Format(type="json", schema_text=ddl, unknown_fields="column")).names

    assert columns("id STRING, n INT") == ["id", "n", "_rest"]
    with pytest.raises(UnusableColumns, match=r"has _rest, which format\.unknownFields makes"):
        columns("id STRING, _Rest INT")
