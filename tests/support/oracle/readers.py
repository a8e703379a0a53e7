"""The reads that a table must answer alike: snapshot and incremental from the beginning, by Hudi and by hudi-rs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import diff_tables

BEGINNING: Final = "0"


def assert_read_alike(hudi: HudiOracle, path: Path, expected: pa.Table, key: Sequence[str]) -> None:
    """Fails with the difference of every read that does not give exactly these rows."""
    reads: dict[str, Callable[[], pa.Table]] = {
        "Hudi, snapshot": lambda: hudi.snapshot(path),
        "hudi-rs, snapshot": lambda: hudi_rs.snapshot(path),
        "Hudi, incremental from the beginning": lambda: hudi.incremental(path, BEGINNING),
        "hudi-rs, incremental from the beginning": lambda: hudi_rs.incremental(path, BEGINNING),
    }
    wrong = []
    for name, read in reads.items():
        actual = read()
        diff = diff_tables(actual, expected, key)
        if not diff.same:
            wrong.append(f"{name}: {actual.num_rows} rows, expected {expected.num_rows}\n{diff}")
    assert not wrong, "\n" + "\n".join(wrong)
