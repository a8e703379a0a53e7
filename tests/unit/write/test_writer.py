"""Writing to a table in this process, by the public class."""

import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder

from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.lease.record import LeaseLost, TableLeased
from bucketingest.write import writer as writer_module
from bucketingest.write.covering import lazy_loading
from bucketingest.write.covering.lazy_loading import RECENT_COMMITS
from bucketingest.write.errors import PositionLost, RowsRejected
from bucketingest.write.writer import Writer

PAGE = Path(__file__).parents[3] / "docs" / "in-python.md"
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("amount", pa.int64()), ("gone", pa.bool_())])
NUMBER = pa.field("n", pa.int64(), nullable=False)
LOOSE = pa.list_(pa.struct([("l", pa.list_(pa.int64()))]))
DEFINITION = TableDefinition("orders", record_key=("id",), buckets=2)


def rows(*amounts: tuple[str, int], gone: bool = False) -> pa.Table:
    return pa.table(
        {"id": [key for key, _ in amounts], "amount": [each for _, each in amounts], "gone": [gone] * len(amounts)}
    )


def opened(url: Path, **settings: Any) -> Writer:
    return Writer.open(
        str(url), **{"definition": DEFINITION, "schema": SCHEMA, "name": "import", "deleted": "gone", **settings}
    )


def snapshot(url: Path) -> list[dict[str, Any]]:
    """What hudi-rs shows."""
    batches = HudiTableBuilder.from_base_uri(str(url)).build().read(HudiReadOptions())
    return [row for batch in batches for row in batch.to_pylist()]


def read(url: Path) -> dict[str, int | None]:
    return {row["id"]: row["amount"] for row in snapshot(url)}


def test_rows_are_visible_together_after_the_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.write(rows(("a", 1), ("b", 1)))
        writer.write(rows(("b", 2), ("c", 2)))
        commit = writer.commit()
        assert commit is not None
        assert (commit.rows, commit.micro_batches) == (4, 2)
        assert read(tmp_path) == {"a": 1, "b": 2, "c": 2}
        writer.write(rows(("a", 3), gone=True))
        assert writer.position == 3
    assert read(tmp_path) == {"b": 2, "c": 2}, "leaving the context commits"


def test_what_was_not_committed_is_rolled_back_and_the_position_says_so(tmp_path: Path) -> None:
    inputs = [rows((f"k{number}", number)) for number in range(4)]
    with opened(tmp_path) as writer:
        writer.write(inputs[0])
    writer = opened(tmp_path)
    writer.write(inputs[writer.position])
    writer.__exit__(ZeroDivisionError)
    assert read(tmp_path) == {"k0": 0}
    with opened(tmp_path) as writer:
        assert writer.position == 1
        for each in inputs[writer.position :]:
            writer.write(each)
    assert read(tmp_path) == {f"k{number}": number for number in range(4)}


@pytest.mark.parametrize("in_a_call", [False, True])
def test_what_a_killed_writer_left_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_a_call: bool
) -> None:
    killed = opened(tmp_path)
    killed.write(rows(("a", 1)))
    if in_a_call:
        monkeypatch.setattr(writer_module, "write_task", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            killed.write(rows(("b", 2)))
        monkeypatch.undo()
    killed._beating.close()
    killed._lease.release()  # in place of its expiry
    with opened(tmp_path) as writer:
        assert writer.position == (0 if in_a_call else 1)
        writer.write(rows(("c", 3)))
    assert read(tmp_path) == ({"c": 3} if in_a_call else {"a": 1, "c": 3})


def test_the_table_has_one_writer(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(TableLeased, match="import"):
        opened(tmp_path, lease_wait=timedelta())


def test_a_column_that_comes_later_and_one_that_is_left_out_are_null(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.write(rows(("a", 1)))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    with opened(tmp_path, schema=wider) as writer:
        writer.write(pa.table({"note": ["n"], "id": ["b"], "gone": [False]}))
    assert read(tmp_path) == {"a": 1, "b": None}


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        with pytest.raises(SchemaError, match="no column id"):
            writer.write(pa.table({"amount": [1], "gone": [False]}))
        with pytest.raises(SchemaError, match="amount"):
            writer.write(pa.table({"id": ["a"], "amount": ["many"], "gone": [False]}))
        writer.write(rows(("a", 1)))
    assert read(tmp_path) == {"a": 1}


def test_columns_and_members_that_the_writer_does_not_know_are_refused(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("at", pa.list_(pa.struct([("x", pa.int64())])))).append(
        pa.field("by", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))
    )
    with opened(tmp_path, schema=schema) as writer:
        for name, column in {
            "note": pa.array(["n"]),
            "at.y": pa.array([[{"x": 1, "y": 2}]]),
            "by.value.y": pa.array([[("k", {"y": 2})]], pa.map_(pa.string(), pa.struct([("y", pa.int64())]))),
        }.items():
            with pytest.raises(SchemaError, match=f"the rows have {re.escape(name)}, which"):
                writer.write(rows(("a", 1)).append_column(name.partition(".")[0], column))
        writer.write(rows(("a", 1)))
    assert read(tmp_path) == {"a": 1}


def test_a_row_without_a_value_that_must_be_is_refused_before_the_open_instant_has_it(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.write(rows(("a", 1)))
        with pytest.raises(SchemaError, match="column id must have a value, and 1 rows have none"):
            writer.write(pa.table({"id": pa.array([None], pa.string())}))
    assert read(tmp_path) == {"a": 1}


def test_a_column_of_deletes_that_the_schema_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="deleted names column gon, which schema lacks"):
        opened(tmp_path, deleted="gon")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "given", "value", "where"),
    [
        (pa.list_(NUMBER), pa.list_(pa.int64()), [1, None], "more.element"),
        (pa.map_(pa.string(), NUMBER), pa.map_(pa.string(), pa.int64()), [("a", None)], "more.value"),
        (pa.struct([NUMBER]), pa.struct([("n", pa.int64())]), {"n": None}, "n"),
        (pa.struct([NUMBER]), pa.struct([("m", pa.int64())]), {"m": None}, "more.m"),
        (pa.struct([("m", pa.int64()), NUMBER]), pa.struct([("m", pa.int64())]), {"m": 1}, "`n` not found"),
        (pa.list_(pa.struct([("l", pa.list_(NUMBER))])), None, [{"l": [None]}], "more.element.l.element"),
    ],
)
def test_a_value_that_must_be_there_inside_a_column_is_missed_before_anything_is_written(
    tmp_path: Path, kind: pa.DataType, given: pa.DataType | None, value: object, where: str
) -> None:
    schema = SCHEMA.append(pa.field("more", kind))
    with opened(tmp_path, schema=schema) as writer:
        bad = rows(("a", 1)).append_column("more", pa.array([value], given or LOOSE))
        with pytest.raises(SchemaError, match=where):
            writer.write(bad)
        writer.write(rows(("b", 1)))
    assert read(tmp_path) == {"b": 1}


def test_a_row_without_a_key_fails_its_instant_and_nothing_says_that_earlier_calls_are_in_the_table(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("id", pa.string()), ("amount", pa.int64()), ("gone", pa.bool_())])
    writer = opened(tmp_path, schema=schema)
    writer.write(rows(("a", 1)))
    # rolls the first call back, too
    with pytest.raises(RowsRejected, match=r"^1 rows cannot be written\. The first: .*null.*\. Correct the rows"):
        writer.write(pa.table({"id": pa.array([None], pa.string())}))
    for act in (writer.commit, lambda: writer.position, lambda: writer.write(rows(("b", 1)))):
        with pytest.raises(PositionLost, match="ended with RowsRejected"):
            act()
    with pytest.raises(PositionLost, match="ended with RowsRejected"):
        writer.__exit__(None)
    with opened(tmp_path, schema=schema) as writer:
        assert writer.position == 0
        writer.write(rows(("b", 1)))
    assert read(tmp_path) == {"b": 1}


def test_a_partition_whose_path_is_too_long_for_the_disk_is_refused_with_its_row(tmp_path: Path) -> None:
    definition = replace(DEFINITION, partition_fields=("place",))
    schema = pa.schema([("id", pa.string()), ("place", pa.string())])
    with opened(tmp_path, definition=definition, schema=schema, deleted=None) as writer:
        writer.write(pa.table({"id": ["a"], "place": ["p"]}))
        writer.commit()
    writer = opened(tmp_path, definition=definition, schema=schema, deleted=None)
    with pytest.raises(RowsRejected, match="more than 255 bytes"):
        writer.write(pa.table({"id": ["b"], "place": ["p" * 300]}))


def test_a_closed_writer_tells_its_position_unless_it_rolled_back(tmp_path: Path) -> None:
    with opened(tmp_path) as writer:
        writer.write(rows(("a", 1)))
    assert writer.position == 1
    with pytest.raises(LeaseLost):
        writer.write(rows(("b", 1)))
    writer = opened(tmp_path)
    writer.write(rows(("b", 1)))
    writer.close()
    with pytest.raises(PositionLost, match="closed before it committed"):
        writer.commit()


@pytest.mark.parametrize("inserts", ["base", "log"])
def test_partitions_whose_keys_are_not_loaded_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inserts: Literal["base", "log"]
) -> None:
    state = StateRules(target_bytes=10 * 1024**2, inserts=inserts)
    definition = TableDefinition("orders", record_key=("id",), partition_fields=("day",), state=state)
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("amount", pa.int64())])
    inputs = [pa.table({"id": ["a"], "day": [f"{day:02}"], "amount": [1]}) for day in range(RECENT_COMMITS + 2)]
    inputs += [pa.table({"id": ["a"], "day": [day], "amount": [2]}) for day in ("11", "00", "01")]
    settings: dict[str, Any] = {"definition": definition, "schema": schema, "deleted": None}
    with opened(tmp_path, **settings) as writer:
        for each in inputs[:-3]:
            writer.write(each)
            writer.commit()
    shutil.rmtree(tmp_path / ".hoodie" / ".bucketingest" / "state")  # as a table that another writer has made
    monkeypatch.setattr(lazy_loading, "EAGER_BYTES_MAX", 0)
    with opened(tmp_path, **settings) as writer:
        for each in inputs[writer.position :]:
            writer.write(each)
    found = {row["day"]: row["amount"] for row in snapshot(tmp_path)}
    assert found == {f"{day:02}": 2 if day in {0, 1, 11} else 1 for day in range(12)}


@pytest.mark.parametrize("is_global", [False, True])
def test_a_table_whose_keys_are_looked_up(tmp_path: Path, *, is_global: bool) -> None:
    state = StateRules(target_bytes=10 * 1024**2, inserts="base", is_global=is_global)
    definition = TableDefinition("orders", record_key=("id",), partition_fields=("day",), state=state)
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("amount", pa.int64())])
    with Writer.open(str(tmp_path), definition, schema, name="import") as writer:
        for number, day in enumerate(("mon", "tue")):
            outcome = writer.write(pa.table({"id": ["a"], "day": [day], "amount": [number]}))
            assert outcome.commit is not None
    found = sorted(row["day"] for row in snapshot(tmp_path))
    assert found == (["tue"] if is_global else ["mon", "tue"])


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for _ in range(2):  # the second run finds everything there
        exec(example, {})
    assert len(read(tmp_path / "orders")) == 3000
