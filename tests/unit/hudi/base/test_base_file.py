"""Base files of a table whose columns were widened have what readers show of the files that they replace."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.table.schema import META_COLUMNS

FLOATS = [0.1, -2.5, 1e-45, 3.4028235e38, None, math.inf, -math.inf, -0.0, 16777216.0]


def test_a_float_becomes_the_double_of_its_text(tmp_path: Path) -> None:
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    path = tmp_path / "base.parquet"
    rows = pa.table({**{each.name: ["x"] * len(FLOATS) for each in meta}, "v": pa.array(FLOATS, pa.float32())})
    with BaseFileWriter(
        path, pa.schema([*meta, ("v", pa.float64())]), path.name, row_group_rows=100, filtered_keys=len(FLOATS)
    ) as out:
        out.write(rows)
        out.finish({})
    assert pq.read_table(path)["v"].to_pylist() == FLOATS
