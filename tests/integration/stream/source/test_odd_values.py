"""Each odd value of each type of message, through a run, is what the table says: as both of Hudi's readers see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pyarrow as pa
import pytest

from support.decoding.odd_values import Name, expected_of, format_of, messages_of, reasons_of
from support.jobs.stream_runs import Lake, NewTopic, Runner
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.environment import find_environment

pytestmark = [pytest.mark.kafka, pytest.mark.hudi]


@pytest.fixture(scope="module")
def hudi() -> Iterator[HudiOracle]:
    with HudiOracle.start(find_environment()) as oracle:
        yield oracle


@pytest.mark.parametrize("name", get_args(Name))
def test_each_value_is_what_the_table_says_to_both_readers(
    name: Name, run: Runner, lake: Lake, new_topic: NewTopic, hudi: HudiOracle
) -> None:
    topic = new_topic()
    messages = list(messages_of(name))
    topic.send([(None, message) for message in messages])

    run.once(lake.resource(topic.source(), format=format_of(name), table={"recordKey": ["id"]}))

    expected = {number: plain(row) for number, row in expected_of(name).items()}
    for reader, rows in (("hudi-rs", hudi_rs.snapshot(lake.table)), ("Hudi", hudi.snapshot(lake.table))):
        found = {row["id"]: plain(row) for row in rows.to_pylist()}
        assert found == expected, reader
    letters = {letter["offset"]: letter for letter in lake.letters()}
    reasons = reasons_of(name)
    assert sorted(letters) == sorted(reasons)
    assert not {at: letters[at]["detail"] for at, why in reasons.items() if why not in letters[at]["detail"]}
    assert {at: letters[at]["value"] for at in reasons} == {at: messages[at] for at in reasons}


def plain(row: dict[str, Any]) -> dict[str, str]:
    """Columns with a value, as text: readers have classes of their own for times, and the order of a map's entries."""
    kept = {name: value for name, value in row.items() if name.startswith("c") and value is not None}
    return {name: text(value) for name, value in kept.items()}


def text(value: Any) -> str:
    if isinstance(value, dict):
        return str({name: text(each) for name, each in value.items()})
    if isinstance(value, list):
        return str([text(each) for each in value])
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return repr(value.as_py() if isinstance(value, pa.Scalar) else value)
