"""The judge of the soak finds what it is there for, also what an upsert hides from readers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.table import TableDefinition
from bucketingest.write.source_range import SourceRange
from soak.judgement import Judgement, judge
from soak.traffic import SCHEMA
from soak.watch import TableWatch
from support.local_writer import PIPELINE, LocalWriter
from support.oracle import hudi_rs


def messages(start: int, end: int) -> pa.Table:
    """Messages of one topic partition; the key is the offset modulo 7."""
    rows: list[dict[str, Any]] = [
        {
            "id": f"key-{offset % 7}",
            "region": "r0",
            "ts": offset,
            "amount": offset,
            "note": "",
            "kafka_partition": 0,
            "kafka_offset": offset,
            "deleted": False,
        }
        for offset in range(start, end)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class SoakedTable:
    """A table that the local writer filled with a micro-batch of offsets 0 to 9 and one of 10 to 19."""

    def __init__(self, path: Path) -> None:
        definition = TableDefinition(
            name="soak", record_key=("id",), partition_fields=("region",), ordering_field="ts", buckets=1
        )
        self.path = path
        self.watch = TableWatch(path, PIPELINE)
        self._writer = LocalWriter(path, definition, SCHEMA, deleted="deleted")
        self.write((0, 10), messages(0, 10))
        self.write((10, 20), messages(10, 20))

    def write(self, range_: tuple[int, int], rows: pa.Table) -> None:
        start, end = (json.dumps({"soak": {"0": offset}}, separators=(",", ":")) for offset in range_)
        source_range = SourceRange("kafka", start, end, "query", range_[0])
        self._writer.coordinator.run(source_range, lambda assignment: self._writer.write(rows, assignment))

    def judged(self, expected: pa.Table, end: int = 20) -> Judgement:
        return judge(self.watch, expected, {"0": end}, {"hudi-rs": lambda: hudi_rs.snapshot(self.path)})


@pytest.fixture
def table(tmp_path: Path) -> SoakedTable:
    return SoakedTable(tmp_path / "table")


def newest(end: int) -> pa.Table:
    """What the table must hold after all offsets before `end`."""
    return messages(end - 7, end)


def test_a_right_table_is_right(table: SoakedTable) -> None:
    judgement = table.judged(newest(20))
    assert judgement.wrong == []
    assert judgement.leftovers == []
    assert (judgement.commits, judgement.rows) == (2, 7)


def test_a_row_that_is_missing_is_lost(table: SoakedTable) -> None:
    judgement = table.judged(pa.concat_tables([newest(20), messages(20, 21).set_column(0, "id", pa.array(["key-x"]))]))
    assert judgement.lost == 1
    assert "1 missing row" in judgement.wrong[-1]


def test_rows_ingested_again_are_found_though_the_upsert_hides_them(table: SoakedTable) -> None:
    table.write((20, 30), messages(10, 20))
    judgement = table.judged(newest(20), end=30)
    assert (judgement.lost, judgement.doubled_or_phantom, judgement.different) == (0, 0, 0)
    assert any("is in" in wrong and "and in" in wrong for wrong in judgement.wrong)
    assert any("whose instant does not have it" in wrong for wrong in judgement.wrong)


def test_a_file_that_lands_after_its_instant_completed_is_found(table: SoakedTable) -> None:
    (log, *_) = sorted((table.path / "r0").glob(".*.log.1_0-0-0"))
    shutil.copy(log, log.with_name(log.name.replace(".log.1_", ".log.2_")))
    judgement = table.judged(newest(20))
    assert any(".log.2_0-0-0" in wrong for wrong in judgement.wrong)


def test_offsets_that_no_instant_has_are_found(table: SoakedTable) -> None:
    judgement = table.judged(newest(20), end=25)
    assert judgement.wrong == ["the last instant ends at {'0': 20}, the topic at {'0': 25}"]


def test_a_completed_instant_that_is_gone_is_found(table: SoakedTable) -> None:
    commits = table.watch.commits()
    (table.path / ".hoodie" / "timeline" / commits[0].instant.file_name).unlink()
    judgement = table.judged(newest(20))
    assert any(wrong.startswith("completed instant") for wrong in judgement.wrong)
    assert any("begins at {'0': 10}" in wrong for wrong in judgement.wrong)
