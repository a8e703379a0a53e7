"""A schema that is large, however short its text, cannot be read: it keeps nothing busy, and ends nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bucketingest.decode.avro.growth import grown
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_writer

PLAIN = '{"type": "record", "name": "T", "fields": [{"name": "id", "type": "string"}]}'


def doubling(levels: int) -> str:
    """Each type has two fields of the one before."""
    kind: Any = "string"
    fields: list[dict[str, Any]] = [{"name": "id", "type": "string"}]
    for number in range(levels):
        inner = [{"name": "a", "type": kind}, {"name": "b", "type": kind if number == 0 else f"R{number - 1}"}]
        kind = {"type": "record", "name": f"R{number}", "fields": inner}
    return json.dumps({"type": "record", "name": "T", "fields": [*fields, {"name": "more", "type": kind}]})


def nested(levels: int, outer: str = "array") -> str:
    """In the text each type is inside the next one."""
    kind: Any = "string"
    for _ in range(levels):
        kind = {"type": outer, "items" if outer == "array" else "values": kind}
    return json.dumps({"type": "record", "name": "T", "fields": [{"name": "more", "type": kind}]})


@pytest.mark.parametrize("read", [read_reader, read_writer])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (doubling(14), "types, named ones written out, and not more than 10000 are read"),
        (doubling(90), "types, named ones written out, and not more than 10000 are read"),
        (nested(100), "has 101 levels, and not more than 100 are read"),
        (nested(150, "map"), "has 151 levels"),
    ],
)
def test_it_is_said_at_once(read: Any, text: str, why: str) -> None:
    with pytest.raises(UnreadableSchema, match=why):
        read(text)
    with pytest.raises(UnreadableSchema, match=why):
        grown(PLAIN, text)


def test_what_is_less_can_be_read() -> None:
    larger, changed = grown(PLAIN, doubling(8))
    assert changed == ("more",)
    assert "more" in larger
    assert read_reader(nested(90))["type"] == "record"


def test_a_writers_type_inside_itself_is_no_large_one() -> None:
    link = {"name": "next", "type": ["null", "T"]}
    text = json.dumps({"type": "record", "name": "T", "fields": [{"name": "id", "type": "string"}, link]})
    assert read_writer(text)["fields"][0]["name"] == "id"
