"""Each odd value of each type of message, through a run, is what the table says: as both of Hudi's readers see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of as ddl_columns
from bucketingest.decode.message_columns import columns_of
from support.decoding.odd_files import Kind, expected_of_files, files_of, reasons_of_files, schema_of
from support.decoding.odd_values import Name, expected_of, format_of, messages_of, model_of, reasons_of
from support.jobs.stream_runs import Lake, NewTopic, Runner
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle

pytestmark = [pytest.mark.kafka, pytest.mark.hudi]


@pytest.mark.parametrize("name", get_args(Name))
def test_each_value_is_what_the_table_says_to_both_readers(
    name: Name, run: Runner, lake: Lake, new_topic: NewTopic, hudi: HudiOracle
) -> None:
    topic = new_topic()
    messages = list(messages_of(name))
    topic.send([(None, message) for message in messages])
    # No table can have a time without a zone.
    storable = [field.name for field in columns_of(model_of(name)) if field.type != pa.timestamp("us")]
    transform = {"sql": f"SELECT {', '.join(storable)} FROM source"}

    run.once(lake.resource(topic.source(), format=format_of(name), transform=transform, table={"recordKey": ["id"]}))

    expected = {number: plain(row, storable) for number, row in expected_of(name).items()}
    for reader, rows in (("hudi-rs", hudi_rs.snapshot(lake.table)), ("Hudi", hudi.snapshot(lake.table))):
        found = {row["id"]: plain(row, storable) for row in rows.to_pylist()}
        assert found == expected, reader
    letters = {letter["offset"]: letter for letter in lake.letters()}
    reasons = reasons_of(name)
    assert sorted(letters) == sorted(reasons)
    assert not {at: letters[at]["detail"] for at, why in reasons.items() if why not in letters[at]["detail"]}
    assert {at: letters[at]["value"] for at in reasons} == {at: messages[at] for at in reasons}


def plain(row: dict[str, Any], columns: list[str]) -> dict[str, str]:
    """Columns with a value, as text: readers have classes of their own for times, and the order of a map's entries."""
    return {name: text(row[name]) for name in columns if name != "id" and row.get(name) is not None}


def text(value: Any) -> str:
    if isinstance(value, dict):
        return str({name: text(each) for name, each in value.items()})
    if isinstance(value, list):
        return str([text(each) for each in value])
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).removesuffix("+00:00")
    return repr(value)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_each_value_of_a_file_is_what_the_table_says_to_both_readers(
    kind: Kind, run: Runner, lake: Lake, tmp_path: Path, hudi: HudiOracle
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    assert list(files_of(kind, incoming))
    source = {"files": {"path": str(incoming), "format": kind, "schema": schema_of(kind)}}

    run.once(lake.resource(source, table={"recordKey": ["id"]}))

    names = [column.name for column in ddl_columns(schema_of(kind))]
    expected = {number: plain(row, names) for number, row in expected_of_files(kind).items()}
    for reader, rows in (("hudi-rs", hudi_rs.snapshot(lake.table)), ("Hudi", hudi.snapshot(lake.table))):
        assert {row["id"]: plain(row, names) for row in rows.to_pylist()} == expected, reader
    details = sorted(letter["detail"].rpartition(": ")[2] for letter in lake.letters())
    assert [
        (part, each) for part, each in zip(sorted(reasons_of_files(kind)), details, strict=True) if part not in each
    ] == []
