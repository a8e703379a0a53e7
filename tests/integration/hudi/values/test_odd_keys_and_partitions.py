"""Keys and partition values that look like something else: both readers give each back, in its one row, before and
after a compaction of ours; an upsert of Hudi's own replaces that row. Or the row is refused.

`BUCKETINGEST_ODD_VALUES=200` takes so many values of each type, and further tables.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.errors import UnsupportedKeyType
from bucketingest.index.partition_path import PartitionPathRule
from bucketingest.index.text import check_key_column
from bucketingest.services.compact_now import compact_now
from bucketingest.services.protocol.records import End
from bucketingest.storage import open_storage, path_room
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import ALL, holder

pytestmark = pytest.mark.hudi

COUNT: Final = int(os.environ.get("BUCKETINGEST_ODD_VALUES", "6"))
TEXTS: Final = [
    "a/b", "a", "%41", "a=b", "10:30", "a,b:c", "__null__", "", None, "__HIVE_DEFAULT_PARTITION__", "..", "x,n:y",
    "é", "e\u0301", "100%", "a b", " ", "a/", "/", "a%2Fb", "%", "%zz", "region=x", "=", "http://x/y", "2024/01/01",
    "2024-01-01 10:00:00", "null", "NULL", "__empty__", ".", ".a", ".hoodie", "_a", "a\tb", "a\nb", "a\x00b", "a\x7fb",
    "a\x85b", "\u200b", "\ufeffa", "🦔", "\"'`", "a\\b", "{a}", "[a]", "a*?#^b", "a;b", "<a>|", "C:\\x", "1", "01",
    "1.0", "1e5", "true", "NaN", "x" * 180, "é" * 120, "x" * 256, "A", "Ä", "ß", "a+b", "a&b", "~", "-", "a..b", "...",
    "a/../b", "%2E%2E", "k=v/w=z", "x:y", "id:1,z:2", ":", ",", "n:1", ",n:", "\uffff", "١",
]  # fmt: skip
NUMBERS: Final = [0, -1, 2**63 - 1, -(2**63), 10, None]
SMALL: Final = [0, -1, 2**31 - 1, -(2**31), None]
DATES: Final = [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(2024, 2, 29), None]
TIMES: Final = [datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, 1, 1, 7, UTC)]
DECIMALS: Final = [Decimal("0.00"), Decimal("-0.01"), Decimal("12.50"), Decimal("99999999.99"), None]
SMALLEST: Final = [Decimal(0), Decimal("1E-18"), Decimal("-0.0000001"), Decimal("12345678901234567890.5"), None]
FLAGS: Final = [True, False, None]
KINDS: Final[dict[str, tuple[pa.DataType, list[Any], Callable[[random.Random], Any]]]] = {
    "s": (pa.string(), TEXTS, lambda chance: "".join(chance.choices("ab/%=:,. \\é4F{}", k=chance.randrange(1, 9)))),
    "n": (pa.int64(), NUMBERS, lambda chance: chance.randrange(-(2**63), 2**63)),
    "i": (pa.int32(), SMALL, lambda chance: chance.randrange(-(2**31), 2**31)),
    "d": (pa.date32(), DATES, lambda chance: date(1970, 1, 1) + timedelta(chance.randrange(-700_000, 2_900_000))),
    "t": (pa.timestamp("us", "UTC"), TIMES, lambda chance: TIMES[0] + timedelta(microseconds=chance.randrange(2**50))),
    "c": (pa.decimal128(10, 2), DECIMALS, lambda chance: Decimal(chance.randrange(10**10)).scaleb(-2)),
    "h": (pa.int16(), [0, -1, 2**15 - 1, -(2**15), None], lambda chance: chance.randrange(-(2**15), 2**15)),
    "y": (pa.int8(), [0, -1, 2**7 - 1, -(2**7), None], lambda chance: chance.randrange(-(2**7), 2**7)),
    "e": (
        pa.decimal128(38, 18),
        SMALLEST,
        lambda chance: Decimal(chance.randrange(10 ** chance.randrange(1, 38))).scaleb(-18),
    ),
    "b": (pa.bool_(), FLAGS, lambda chance: chance.choice(FLAGS)),
}
CASES: Final[dict[str, tuple[list[str], list[str], dict[str, bool]]]] = {
    "text partition": (["n"], ["s"], {}),
    "composite key": (["s", "n", "t"], [], {}),
}  # fmt: skip
KEYS: Final = ["s", "n", "i", "h", "y", "d", "t", "c", "e", "b"]
PARTITIONS: Final = [name for name in KEYS if name != "t"]
TYPES: Final = [
    *(kind for kind, _, _ in KINDS.values()),
    *(pa.float32(), pa.float64(), pa.binary(), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())),
    pa.struct([("x", pa.int32())]),
]
"""What a column of a table may be."""
if "BUCKETINGEST_ODD_VALUES" in os.environ:
    CASES.update(
        {
            "text key and partition": (["s"], ["s"], {}),
            "text partition, column=value": (["n"], ["s"], {"hive": True}),
            "all types": (KEYS, PARTITIONS, {}),
        }
    )


def rows_of(keys: list[str], partition_by: list[str]) -> pa.Table:
    """A row of each odd value, its columns independent of one another; different rows have different keys."""
    chance = random.Random(7)
    columns: dict[str, list[Any]] = {}
    for name, (_, odd, more) in KINDS.items():
        values = [*odd, *(more(chance) for _ in range(max(COUNT - len(odd), 0)))]
        columns[name] = (
            [values[at % len(values)] for at in range(COUNT)] if name == "s" else chance.choices(values, k=COUNT)
        )
    if "s" not in keys:
        columns["n"] = list(range(COUNT))
    if len(keys) > 1:  # texts with one and with another number, so that keys differ in one column only
        columns["n"] = [chance.choice([1, 2]) for _ in range(COUNT)]
    schema = pa.schema([pa.field(name, kind) for name, (kind, _, _) in KINDS.items()])
    table = pa.table(columns, schema=schema)
    places = table.select(list(dict.fromkeys([*keys, *partition_by]))).to_pylist()
    kept = list({str(place): at for at, place in enumerate(places)}.values())
    return table.take(kept).append_column("note", pa.array([f"ours {at}" for at in kept]))


def taken(writer: LocalWriter, rows: pa.Table, path: Path) -> pa.Table:
    """The rows that the table takes."""
    batch = rows.combine_chunks().to_batches()[0]
    rules = writer._opened.rules
    keys, partitions = rules.record_key.columns(batch), rules.partition_path.paths(batch, path_room(str(path)))
    refused = np.zeros(rows.num_rows, np.bool_)
    for mask in (keys.missing, keys.ambiguous, partitions.refused):
        if mask is not None:
            refused |= mask.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(~refused))


def plain(rows: pa.Table) -> list[str]:
    """The rows as text, in one order: readers have types of their own for times."""
    return sorted(str([_text(row[name]) for name in (*KINDS, "note")]) for row in rows.to_pylist())


def _text(value: Any) -> str:
    return str(value.astimezone(UTC).replace(tzinfo=None)) if isinstance(value, datetime) else repr(value)


def test_every_type_that_a_key_or_a_partition_may_have_is_judged() -> None:
    def taken_by(check: Callable[[pa.Schema], object]) -> set[pa.DataType]:
        found = set()
        for kind in TYPES:
            with suppress(UnsupportedKeyType):
                check(pa.schema([("x", kind)]))
                found.add(kind)
        return found

    judged = {name: kind for name, (kind, _, _) in KINDS.items()}
    assert taken_by(lambda schema: check_key_column(schema, "x")) == {judged[name] for name in KEYS}
    assert taken_by(PartitionPathRule(("x",)).check) == {judged[name] for name in PARTITIONS}


@pytest.mark.parametrize("name", list(CASES))
def test_each_value_is_in_its_one_row_or_refused(name: str, hudi: HudiOracle, tmp_path: Path) -> None:
    keys, partition_by, how = CASES[name]
    path, rows = tmp_path / "odd", rows_of(keys, partition_by)
    extra = {"hoodie.datasource.write.hive_style_partitioning": str(how.get("hive", False)).lower()}
    of_hudi = HudiWriter("odd", keys, partition_by, buckets=1, extra=extra)
    definition = TableDefinition(
        "odd", tuple(keys), tuple(partition_by), buckets=1, hive_style_partitioning=how.get("hive", False)
    )
    writer = LocalWriter(path, definition, rows.schema)
    rows = taken(writer, rows, path)
    assert rows.num_rows
    writer.commit(rows)

    expected = plain(rows)
    assert plain(hudi.snapshot(path)) == expected
    assert plain(hudi_rs.snapshot(path)) == expected
    assert plain(hudi.incremental(path, "0")) == expected
    assert plain(hudi_rs.incremental(path, "0")) == expected

    storage = open_storage(str(path))
    assert {each.end for each in compact_now(storage, holder(storage), ALL, utc_now)} <= {End.COMPLETED}
    for read in (hudi.snapshot, hudi.read_optimized, hudi_rs.snapshot):
        assert plain(read(path)) == expected, read

    theirs = rows.set_column(rows.schema.get_field_index("note"), "note", pa.array(["theirs"] * rows.num_rows))
    hudi.upsert(path, theirs, of_hudi)
    assert plain(hudi.snapshot(path)) == plain(theirs)
    assert plain(hudi_rs.snapshot(path)) == plain(theirs)
