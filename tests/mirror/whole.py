"""Groups of rows whose numbers add up to zero: a transaction writes all of them whole, so a commit that shows a part is
seen. What Debezium sends again after a crash writes whole groups, too.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror.sources import Source, Statement, Value
from support.oracle import hudi_rs

GROUPS: Final = 40
ROWS: Final = 5
"""Of a group; their keys are below zero, where no other change is."""


def groups_written(source: Source, draw: random.Random) -> Statement:
    """New numbers for all groups, first of all their first rows: in the middle of it no group is whole."""
    numbers = [[draw.randint(-1000, 1000) for _ in range(ROWS - 1)] for _ in range(GROUPS)]
    rows = [
        (-(group * ROWS + row + 1), "north", [*numbers[group], -sum(numbers[group])][row])
        for row in range(ROWS)
        for group in range(GROUPS)
    ]
    values: tuple[Value, ...] = tuple(value for row in rows for value in row)
    return (
        f"INSERT INTO orders (id, grp, whole) VALUES {', '.join(['(%s, %s, %s)'] * len(rows))} {source.or_whole}",
        values,
    )


def instants(table: Path) -> list[str]:
    """Request times of all commits of rows that have completed, as the timeline has them now."""
    return sorted(each.name.partition("_")[0] for each in (table / ".hoodie" / "timeline").glob("*_*.deltacommit"))


def shown_in_part(table: Path, instant: str) -> list[int]:
    """Groups of which the table as of this instant has some rows only, or rows of several transactions."""
    rows = hudi_rs.as_of(table, instant)
    if not rows.num_columns:
        return []
    rows = rows.select(["id", "whole"]).filter(pc.field("id") < 0)
    group = pc.divide(pc.subtract(pc.negate(rows["id"]), pa.scalar(1, pa.int64())), pa.scalar(ROWS, pa.int64()))
    found = (
        pa.table({"group": group, "whole": rows["whole"]})
        .group_by("group")
        .aggregate([("whole", "sum"), ("whole", "count")])
    )
    return [each["group"] for each in found.to_pylist() if (each["whole_sum"], each["whole_count"]) != (0, ROWS)]
