"""Hudi's own writer at a chain's table, between the job's micro-batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import without_meta_columns
from support.oracle.writer import HudiWriter

THEIRS: Final = HudiWriter("chain", ("id",), buckets=1)


@dataclass
class HudisWriter:
    """Writes what the table already has, with all its columns, under new keys. `draw`: when, and which rows."""

    oracle: HudiOracle
    draw: random.Random

    def __post_init__(self) -> None:
        self._numbers = count()

    def upsert(self, path: Path, keys: Sequence[str]) -> dict[str, str]:
        """New keys, and those whose rows they have now."""
        old = self.draw.sample(keys, min(len(keys), 2))
        new = [f"hudi{next(self._numbers)}" for _ in old]
        rows = without_meta_columns(hudi_rs.snapshot(path))
        places = pa.array([pc.index(rows["id"], each).as_py() for each in old], pa.int64())
        at = rows.column_names.index("id")
        self.oracle.upsert(path, rows.take(places).set_column(at, rows.schema.field(at), pa.array(new)), THEIRS)
        return dict(zip(new, old, strict=True))

    def compact(self, path: Path) -> str:
        """The time of the plan, "" if there is nothing to compact."""
        planned = self.oracle.schedule_compaction(path, THEIRS)
        if not planned.num_rows:
            return ""
        assert set(self.oracle.run_compaction(path, THEIRS)["state"].to_pylist()) == {"COMPLETED"}
        return max(planned["timestamp"].to_pylist())
