"""Resident memory of a merge of a file slice that is larger than the memory it may take."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.comparison import Options, WrongResult
from bench.cases.services.compaction_table import ORDERING, RECORD_KEY, Shape
from bench.data import SEED
from bench.results_format import Case, Measured
from bench.sides.start import start_compaction, versions
from bucketingest.hudi.log.blocks import avro_data_block, parquet_data_block
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns

BUDGET_BYTES: Final = 1024**3
_MIB: Final = 1024**2
_BASE_FACTOR: Final = 6
"""Rows of the base file for each row of the other cases: 12 million, about a gigabyte."""
_LOGS: Final = 10
_PART_ROWS: Final = 100_000
_BASE: Final = "base.parquet"
_INSTANT: Final = "20260101000000001"


@dataclass(frozen=True, slots=True)
class Logs:
    """The log files of one measurement."""

    name: str
    log_block: Literal["parquet", "avro"]
    share: int
    """A log file has this part of an upsert's rows."""
    distinct: bool
    """Whether no key is in two log files."""


KINDS: Final = (
    Logs("1m-records", "parquet", share=20, distinct=False),
    Logs("5m-keys", "parquet", share=4, distinct=True),
    Logs("5m-keys-avro", "avro", share=4, distinct=True),
)


def compaction_memory_cases(name: str, options: Options) -> Iterator[Case]:
    """One case for each kind of log files, over one base file; the process is new each time."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shape = Shape("parquet", wide=True, base_rows=options.rows * _BASE_FACTOR, log_rows=0)
    write_base(shape, folder / _BASE)
    for kind in KINDS:
        logs = write_logs(shape, kind, folder, max(options.rows // kind.share, 1))
        yield _measured(f"{name}-{kind.name}", shape, kind, folder, logs)
    shutil.rmtree(folder)


def write_base(shape: Shape, path: Path) -> None:
    """The base file of a shape, part by part."""
    keys = np.random.default_rng([SEED, 0]).permutation(shape.base_rows)
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *shape.schema])
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as writer:
        for rows in _parts(shape, keys, 0):
            writer.write_table(rows.cast(schema))


def write_logs(shape: Shape, kind: Logs, folder: Path, rows: int) -> list[str]:
    """Log files of so many rows each, with new keys among them; returns their names in `folder`."""
    block = avro_data_block if kind.log_block == "avro" else parquet_data_block
    schema = schema_json(with_meta_columns(arrow_to_avro(shape.schema, table_name="t")))
    keys = int(shape.base_rows * 1.05)
    every = np.random.default_rng([SEED, 99]).permutation(keys)
    names = []
    for number in range(1, _LOGS + 1):
        first = (number - 1) * rows
        chosen = (
            every[first : first + rows] if kind.distinct else np.random.default_rng(number).permutation(keys)[:rows]
        )
        names.append(f".{kind.name}-{number}.log")
        with (folder / names[-1]).open("wb") as file:
            for part in _parts(shape, chosen, number):
                for data in block(part, instant_time=_INSTANT, avro_schema_json=schema):
                    file.write(memoryview(data))
    return names


def _parts(shape: Shape, keys: np.ndarray[Any, np.dtype[np.int64]], load: int) -> Iterator[pa.Table]:
    """The keys' rows with meta columns."""
    for first in range(0, len(keys), _PART_ROWS):
        rows = shape.table(keys[first : first + _PART_ROWS], load)
        of_key = rows[RECORD_KEY]
        numbers = pa.array(np.arange(first, first + len(of_key))).cast(pa.string())
        constant = {name: pa.array([name]).take(pa.array(np.zeros(len(of_key), np.int32))) for name in META_COLUMNS}
        meta = constant | {META_COLUMNS[1]: numbers, META_COLUMNS[2]: of_key}
        yield pa.table(meta | {name: rows[name] for name in rows.column_names})


def _measured(name: str, shape: Shape, kind: Logs, folder: Path, logs: list[str]) -> Case:
    base_bytes = (folder / _BASE).stat().st_size
    log_bytes = sum((folder / log).stat().st_size for log in logs)
    with start_compaction(max(os.sched_getaffinity(0))) as ours:
        answer = ours.ask(op="merge", path=str(folder), base_file=_BASE, log_files=logs, ordering=ORDERING)
    if answer["rows"] != shape.base_rows + answer["inserts"] or not answer["updates"]:
        raise WrongResult(f"the merged file has {answer['rows']} rows: {answer}")
    peak = Measured.of("bucketingest", [answer["peak_bytes"] / _MIB])
    budget = Measured.of("budget", [BUDGET_BYTES / _MIB])
    changed = answer["updates"] + answer["inserts"]
    return Case.of(
        case=name,
        what=(
            f"One file slice is merged: a base file of {shape.base_rows:,} rows and {len(shape.schema)} columns "
            f"({base_bytes / _MIB:,.0f} MiB) and {len(logs)} log files ({kind.log_block} blocks, "
            f"{log_bytes / _MIB:,.0f} MiB) with {changed:,} keys. The figure is the highest resident memory (VmHWM) of "
            "the process, interpreter and libraries included; the peer is the budget."
        ),
        unit="MiB",
        rows=shape.base_rows,
        ours=peak,
        peer=budget,
        notes=(f"the merge took {answer['seconds']:.1f} s on one core",),
        versions=versions({"pyarrow": pa.__version__}, {}),
    )
