"""Our merge of each file slice and Hudi's compaction of a copy of the table give the same rows, with meta columns."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.merge.merge_rules import IS_DELETED, OPERATION, merge_rules
from bucketingest.hudi.table.file_view import FileGroup, load_file_view
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.merge.slice_merge import SliceInput, merge_slices
from bucketingest.storage import open_storage
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

KEYS, MOMENTS, BUCKETS = 40, 12, 2
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Case:
    """An ordering column, how deletes are written, and what happens to the table."""

    kind: pa.DataType = field(default_factory=pa.int64)
    value: Callable[[int], Any] = lambda moment: moment
    ordered: bool = True
    deletes: Literal["blocks", "rows", "operations"] = "blocks"
    log_block: Literal["parquet", "avro"] = "parquet"
    version: int = 9
    gets_a_column: bool = False
    """After the first compaction, by later commits."""
    loses_all_rows: bool = False
    """Of one partition, in the last commit."""

    @property
    def flag(self) -> str:
        """Name of the column that says whether a row deletes its key."""
        return {"rows": IS_DELETED, "operations": OPERATION}.get(self.deletes, "gone")

    def flag_of(self, *, deleted: bool, chance: random.Random) -> bool | str:
        """Its value."""
        if self.deletes == "operations":
            return chance.choice(("D", "-U") if deleted else ("I", "U"))
        return deleted


CASES = {
    "long": Case(),
    "long, deletes in rows, Avro": Case(deletes="rows", log_block="avro"),
    "int with zero": Case(pa.int32(), lambda moment: moment - 4),
    "int with zero, deletes in rows": Case(pa.int32(), lambda moment: moment - 4, deletes="rows"),
    "timestamp, version 8": Case(
        pa.timestamp("us", tz="UTC"), lambda moment: 1_700_000_000_000_000 + moment, version=8, log_block="avro"
    ),
    "date with zero": Case(pa.date32(), lambda moment: EPOCH + timedelta(days=moment - 4)),
    "double": Case(pa.float64(), lambda moment: (float("nan"), -0.0, 0.0)[moment] if moment < 3 else moment / 3 - 1),
    "string, with a column that is added later": Case(
        pa.string(), lambda moment: f"{moment:02}", gets_a_column=True, log_block="avro"
    ),
    "decimal, with a partition that loses all its rows": Case(
        pa.decimal128(10, 2), lambda moment: Decimal(moment) / 4, loses_all_rows=True
    ),
    "operations that delete": Case(deletes="operations"),
    "commit time": Case(ordered=False, loses_all_rows=True),
    "commit time, deletes in rows": Case(ordered=False, deletes="rows", gets_a_column=True),
}


def compacted_by_hudi(hudi: HudiOracle, path: Path, writer: HudiWriter) -> dict[str, pa.Table]:
    """File id -> the rows of its base file, in a copy of the table."""
    copy = path.with_name("by-hudi")
    shutil.copytree(path, copy)
    hudi.compact(copy, writer)
    storage = open_storage(str(copy))
    found = {}
    for group in load_file_view(storage, Timeline.load(storage)).groups:
        assert group.latest is not None
        assert group.latest.base_file is not None
        found[group.partition_path + group.file_id] = pq.read_table(copy / group.latest.base_file.path)
    return found


def compacted_by_us(path: Path, schema: pa.Schema, to: Path) -> dict[str, pa.Table]:
    """The same, for groups with log files."""
    storage = open_storage(str(path))
    timeline = Timeline.load(storage)
    stored = avro_to_arrow(with_meta_columns(arrow_to_avro(schema, table_name="compacted")))
    rules = merge_rules(load_table(storage), stored)
    found = {}
    for group in load_file_view(storage, timeline).groups:
        files = input_of(group, timeline.newest_time or "")
        if files is not None:
            merge_slices(storage, [files], rules, file_name="ours", to=to)
            found[group.partition_path + group.file_id] = pq.read_table(to)
    return found


def input_of(group: FileGroup, newest: str) -> SliceInput | None:
    latest = group.latest
    if latest is None or not latest.log_files:
        return None
    base = latest.base_file.path if latest.base_file else None
    return SliceInput(base, [log.path for log in latest.log_files], newest)


@pytest.mark.parametrize("name", CASES)
def test_the_merge_of_each_slice_gives_the_rows_of_hudis_compaction(
    hudi: HudiOracle, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    chance = random.Random(name)
    flags = pa.string() if case.deletes == "operations" else pa.bool_()
    fields = [("id", pa.string()), ("region", pa.string()), ("at", case.kind), ("value", pa.string())]
    schema = pa.schema([*fields, (case.flag, flags)])
    at = "at" if case.ordered else None
    definition = TableDefinition("compacted", ("id",), ("region",), at, buckets=BUCKETS, version=case.version)
    operations = {"hoodie.allow.operation.metadata.field": "true"} if case.deletes == "operations" else {}
    theirs = HudiWriter(
        "compacted", ["id"], ["region"], at, buckets=BUCKETS, table_version=case.version, everywhere=operations
    )
    path = tmp_path / "table"

    def writer() -> LocalWriter:
        deleted = case.flag if case.deletes == "blocks" else None
        return LocalWriter(path, definition, schema, deleted=deleted, log_block=case.log_block, batch_rows=25)

    def row(key: int, region: str, value: str, *, deleted: bool, moment: int | None = None) -> dict[str, Any]:
        when = chance.randrange(MOMENTS) if moment is None else moment
        small = case.kind in {pa.int32(), pa.date32()}
        if small and case.deletes == "blocks" and case.value(when) in {0, EPOCH}:
            deleted = False  # a delete block cannot say this value: such a row is a dead letter
        flag = case.flag_of(deleted=deleted, chance=chance)
        return {"id": f"key-{key}", "region": region, "at": case.value(when), "value": value, case.flag: flag}

    def batch(label: str) -> pa.Table:
        rows = [
            row(
                chance.randrange(KEYS),
                chance.choice(["eu", "us"]),
                f"{label}-{number}",
                deleted=chance.random() < 0.25,
            )
            for number in range(60)
        ]
        if "added" in schema.names:
            rows = [each | {"added": chance.choice((None, 1, 2))} for each in rows]
        return pa.Table.from_pylist(rows, schema=schema)

    first = writer()
    for label in ("a", "b"):
        first.commit(batch(label))
    hudi.compact(path, theirs)
    if case.gets_a_column:
        first.commit(batch("before it"))
        schema = schema.append(pa.field("added", pa.int32()))
    then = writer()
    for label in ("c", "d", "e"):
        then.commit(batch(label))
    if case.loses_all_rows:
        rows = [row(key, "us", "none", deleted=True, moment=MOMENTS) for key in range(KEYS)]
        then.commit(pa.Table.from_pylist(rows, schema=schema))

    ours = compacted_by_us(path, schema, tmp_path / "ours.parquet")
    by_hudi = compacted_by_hudi(hudi, path, theirs)

    assert ours
    assert any(table.num_rows == 0 for table in ours.values()) == case.loses_all_rows
    for group, table in ours.items():
        expected = by_hudi[group]
        if case.deletes != "operations":  # whose column is one of its own to Hudi, with a place of its own
            assert table.column_names == expected.column_names
        assert_same_rows(with_plain_names(table), with_plain_names(expected), ["id"])


def with_plain_names(rows: pa.Table) -> pa.Table:
    """Without the file name, and with names under which the comparison does not leave meta columns out."""
    rows = rows.drop_columns([META_COLUMNS[-1]])
    return rows.rename_columns([name.replace("_hoodie_", "meta_") for name in rows.column_names])
