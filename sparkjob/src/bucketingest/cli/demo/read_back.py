"""Reads the demo's table with hudi-rs, an implementation of Hudi in Rust, which knows nothing of how it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from bucketingest.cli.errors import MissingDependency, WrongResult

META_PREFIX = "_hoodie_"


def check_reader() -> None:
    """Raise MissingDependency unless hudi-rs can be imported; asked before the demo spends half a minute writing."""
    try:
        import hudi  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "the demo reads its table back with hudi-rs, which is missing: pip install hudi==0.5.0"
        ) from error


def read_table(path: Path) -> pa.Table:
    """The table's rows as they are now, without meta columns. Raises WrongResult if hudi-rs cannot read it."""
    from hudi import HudiTableBuilder

    try:
        batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust arrives as a BaseException of no importable class
        raise WrongResult(f"hudi-rs cannot read {path}: {error}") from error
    if not batches:
        raise WrongResult(f"hudi-rs finds no row in {path}")
    table = pa.Table.from_batches(batches)
    return table.select([name for name in table.column_names if not name.startswith(META_PREFIX)])


def first_rows(table: pa.Table, count: int) -> list[dict[str, Any]]:
    """A few rows, those with the smallest values in the first column."""
    column = table.column_names[0]
    return table.sort_by(column).slice(0, count).to_pylist()
