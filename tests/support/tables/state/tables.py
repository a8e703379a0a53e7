"""Tables with an index with a state: what is in them, and what another writer puts there, as Hudi's SIMPLE index
does.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.hudi.table.table import InsertMode, StateRules
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.storage.interface import Level, ObjectInfo
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import later, next_time
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import Rows, TestTable
from support.tables.write_plans import SCHEMA, definition, row

THEIRS = "7a6b5c4d-0000-4000-8000-000000000001-0"
"""A file group of the other writer."""


class ForgetfulStorage(PassingStorage):
    """Lists no file of `THEIRS`."""

    def list_level(self, prefix: str = "") -> Level:
        level = super().list_level(prefix)
        return Level(level.directories, [each for each in level.objects if THEIRS not in each.path])

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (each for each in super().list(prefix) if THEIRS not in each.path)


def state_table(*, report_duplicates: bool = False, inserts: InsertMode = "base", is_global: bool = False) -> TestTable:
    """A new table; `support.tables.write_plans.row` makes its rows."""
    rules = StateRules(report_duplicates=report_duplicates, inserts=inserts, is_global=is_global)
    return TestTable(definition(state=rules))


def amounts(table: TestTable) -> dict[str, int]:
    """Record key -> amount, of the rows that a reader shows. Fails for a key that is in two file groups."""
    return {key: each["amount"] for key, each in snapshot(table.storage).items()}


def places(table: TestTable) -> dict[str, tuple[str, int]]:
    """Record key -> partition and amount, as a reader shows them. Fails for a key in two file groups."""
    rows = snapshot(table.storage)
    assert all(each["_hoodie_partition_path"] == each["region"] for each in rows.values())
    return {key: (each["region"], each["amount"]) for key, each in rows.items()}


def groups_of_keys(table: TestTable) -> Mapping[str, set[str]]:
    """Record key -> the file ids that have it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    replaced = replaced_file_groups(table.storage, table.timeline())
    for group in load_file_view(table.storage, table.timeline()).groups:
        if (group.partition_path, group.file_id) in replaced:
            continue
        for keys in keys_of_rows(table.storage, group.latest) if group.latest is not None else ():
            for key in keys.to_pylist():
                found[key].add(group.file_id)
    return found


def insert_by_another(
    table: TestTable, rows: Rows, *, region: str = "eu", file_id: str = THEIRS, time: str | None = None
) -> str:
    """A commit of another writer: the rows as the base file of a new file group; its request time. `time`: that, by a
    clock that is behind the table's times.
    """
    done = None if time is None else later(time)
    time = time or later(next_time(table))  # a clustering takes a time between two instants, and waits for one
    create_requested(table.storage, time)
    create_inflight(table.storage, time)
    name = BaseFileName(file_id, time, "1-1-1")
    meta = [[time], [f"{time}_0_0"], None, [region], [str(name)]]
    keys = [each["id"] for each in rows]
    columns = {
        column: pa.array(keys if value is None else value * len(keys))
        for column, value in zip(META_COLUMNS, meta, strict=True)
    }
    data = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    sink = io.BytesIO()
    pq.write_table(pa.table(columns | {field: data[field] for field in data.column_names}), sink)
    ensure_partition_metadata(table.storage, region, time)
    table.storage.create(join(region, str(name)), sink.getvalue())
    stat = WriteStat.of_base_file(region, name, size=len(sink.getvalue()), inserts=len(keys))
    complete(table.storage, time, done or next_time(table), CommitMetadata({region: [stat]}).encode())
    return time


FIRST = [row(f"k{number}", region=("eu", "us")[number % 2], amount=number, at=1) for number in range(6)]
SECOND = [row(f"k{number}", region=("eu", "us")[number % 2], amount=10 + number, at=2) for number in range(3, 9)]
BOTH = {f"k{number}": number for number in range(3)} | {f"k{number}": 10 + number for number in range(3, 9)}
"""Two micro-batches whose keys overlap, and the amounts after both."""


def data_files(table: TestTable) -> list[str]:
    """Paths of the base and log files."""
    paths = (info.path for region in ("eu", "us") for info in table.storage.list(region))
    return [path for path in paths if "partition_metadata" not in path]


def check(table: TestTable, expected: dict[str, int]) -> None:
    """A reader shows these amounts, each key is in one file group, and nothing is pending."""
    assert amounts(table) == expected
    assert {key: len(found) for key, found in groups_of_keys(table).items() if len(found) > 1} == {}
    assert table.timeline().pending == ()
