"""After `bucketingest handover` Hudi's writer with its SIMPLE index, which looks into base files only, updates the rows
of a table with buckets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.table.table import TableDefinition
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

RULES: Final = MergeRules(key=["id"], partition_by=[], ordering="at")
SCHEMA: Final = pa.schema([("id", pa.string()), ("at", pa.int64()), ("value", pa.string())])
SIMPLE: Final = HudiWriter(name="orders", record_key=["id"], ordering="at", extra={"hoodie.index.type": "SIMPLE"})


def rows(at: int, first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    columns = {
        "id": [f"k{number}" for number in numbers],
        "at": [at] * count,
        "value": [f"{at} {number}" for number in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


def test_hudis_writer_without_buckets_updates_what_was_handed_over(
    hudi: HudiOracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, expected = tmp_path / "orders", ExpectedTable(RULES)
    writer = LocalWriter(path, TableDefinition("orders", ("id",), (), "at", buckets=4), SCHEMA)
    for each in (rows(1, 0, 40), rows(2, 20, 40)):
        writer.commit(each)
        expected.apply(each)
    assert call(["handover", "--dry-run", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(each["keys"] for each in found["log_only"]) == 60
    assert call(["handover", str(path)]) == 0
    assert "every key is in a base file" in capsys.readouterr().out

    theirs = rows(3, 10, 60)
    hudi.upsert(path, theirs, SIMPLE)
    expected.apply(theirs)
    assert_same_rows(hudi.snapshot(path), expected.table(), RULES.identity)
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), RULES.identity)
