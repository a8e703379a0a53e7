"""Base files of a table whose columns were widened have what readers show of the files that they replace, and a damaged
one is never read as another one.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import bucketingest
from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.merge.base_reader import open_base
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.storage import open_storage

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


def test_every_reader_of_parquet_compares_the_checksums_of_pages() -> None:
    package = Path(bucketingest.__file__).parent
    calls = {
        f"{path.relative_to(package)}:{node.lineno}": {each.arg for each in node.keywords}
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pq.ParquetFile", "pq.read_table"}
    }
    assert len(calls) > 5
    assert [place for place, given in calls.items() if "page_checksum_verification" not in given] == []


def test_no_byte_of_a_page_changes_without_an_error(tmp_path: Path) -> None:
    """Many damaged pages decode: a merge would write their values, and a clean delete the last right ones."""
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    count = 100
    rows = pa.table(
        {
            **{each.name: [f"x{number}" for number in range(count)] for each in meta},
            "v": pa.array(range(10**9, 10**9 + count)),
        }
    )
    path = tmp_path / "base.parquet"
    schema = pa.schema([*meta, ("v", pa.int64())])
    with BaseFileWriter(path, schema, path.name, row_group_rows=count, filtered_keys=None) as out:
        out.write(rows)
        out.finish({})
    storage, content = open_storage(str(tmp_path)), path.read_bytes()
    with open_base(storage, path.name) as base:
        right, group = base.read(), base.metadata.row_group(0)
    values = group.column(group.num_columns - 1)
    first = values.data_page_offset
    for at in range(first, first + values.total_compressed_size, 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            with open_base(storage, path.name) as base:
                found = base.read()
        except (pa.ArrowException, OSError):
            continue
        assert found.equals(right), at
