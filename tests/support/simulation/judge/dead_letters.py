"""Judges the dead letters: each row that cannot be written is in exactly one of the places ever configured."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from support.simulation.spec import TRUNCATE, Row


def dead_letters(places: Sequence[Mapping[str, bytes]], rows: Sequence[Row], *, renamed: bool) -> Iterator[str]:
    """Once each, also where other rows were ingested again; a renamed pipeline writes them again under its new name."""
    letters = sorted(
        json.loads(row["value"])["offset"]
        for place in places
        for path, content in place.items()
        if not path.startswith(".staging/")
        for row in pq.ParquetFile(io.BytesIO(content)).read(use_threads=False).to_pylist()
    )
    wanted = [row["offset"] for row in rows if row["id"] is None and TRUNCATE not in row]
    if letters != wanted and not (renamed and set(letters) == set(wanted)):
        yield f"dead letters of offsets {letters} instead of {wanted}"
