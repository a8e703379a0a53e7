"""Java's .properties text and the checksum of hoodie.properties."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.table.properties import checksum, parse, serialise
from support.tables.fixtures import properties_fixture

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXT, TEXT))
def test_what_is_serialised_parses_to_the_same(properties: dict[str, str]) -> None:
    text = serialise(properties, ("a comment",))
    assert text.isascii()
    assert parse(text) == properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# c\n! c\n\n  a = 1  \r\nb\t:\t2", {"a": "1  ", "b": "2"}),
        ("a=1\\\n   2\\\r\n3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\:c=d\\=e", {"a b:c": "d=e"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==1", {"a": "=1"}),
        ("a=x#y", {"a": "x#y"}),
        ("a=\\q", {"a": "q"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


def test_a_broken_escape_is_reported() -> None:
    with pytest.raises(InvalidTable, match="hexadecimal"):
        parse("a=\\u12")


def test_a_schema_in_properties_of_hudis_reads_as_json() -> None:
    assert parse(properties_fixture("sqlt"))["hoodie.table.create.schema"].startswith(
        '{"type":"record","name":"sqlt_record"'
    )


@pytest.mark.parametrize("name", ["t8avro", "t9avro", "np9", "sqlt"])
def test_the_checksum_is_that_of_hudis_tables(name: str) -> None:
    properties = parse(properties_fixture(name))
    found = checksum(properties.get("hoodie.database.name", ""), properties["hoodie.table.name"])
    assert found == properties["hoodie.table.checksum"]


def test_the_checksum_is_unsigned() -> None:
    assert zlib.crc32(b".t6avro") > 2**31
    assert checksum("", "t6avro") == "2950593655"
