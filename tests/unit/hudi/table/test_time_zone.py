"""Tables of zone LOCAL: accepted unless their files show that they do not count in UTC."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.checks import check_table
from bucketingest.hudi.table.table import TableDefinition, load_table
from bucketingest.hudi.table.time_zone import offset_from_utc
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import ObjectInfo
from support.tables.fixtures import unpack_fixture

START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def completed(offset: timedelta, written_after: timedelta = timedelta(seconds=1), minutes: int = 0) -> ObjectInfo:
    """A commit that completes `minutes` after the start, by a writer whose zone is `offset` ahead of UTC."""
    moment = START + timedelta(minutes=minutes)
    name = f"{format_time(moment + offset - timedelta(seconds=5))}_{format_time(moment + offset)}.deltacommit"
    return ObjectInfo(f".hoodie/timeline/{name}", 1, moment + written_after, None)


@pytest.mark.parametrize("hours", [-5, 0, 5.75, 8])
def test_the_zone_shows_in_names_and_modification_times(hours: float) -> None:
    offset = timedelta(hours=hours)
    assert offset_from_utc(completed(offset, minutes=n) for n in range(5)) == offset


def test_too_few_or_too_close_commits_show_no_zone() -> None:
    offset = timedelta(hours=8)
    assert offset_from_utc([]) is None
    assert offset_from_utc(completed(offset, minutes=n) for n in (0, 60)) is None
    assert offset_from_utc(completed(offset) for _ in range(9)) is None


def test_a_copied_table_shows_no_zone() -> None:
    copied = START + timedelta(days=3)
    files = [completed(timedelta(), copied - START - timedelta(minutes=n), minutes=n) for n in range(5)]
    assert len({file.modified for file in files}) == 1
    assert offset_from_utc(files) is None


@pytest.mark.parametrize("hours", [0, 7])
def test_a_local_table_is_refused_only_when_it_counts_in_another_zone(hours: int, tmp_path: Path) -> None:
    root = unpack_fixture("java_v9_avro", tmp_path)
    for minutes in range(5):
        info = completed(timedelta(hours=hours), minutes=minutes)
        path = root / info.path
        path.touch()
        os.utime(path, (info.modified.timestamp(),) * 2)
    for path in (root / ".hoodie/timeline").glob("*_202611210817*"):
        path.unlink()
    for path in (root / ".hoodie/timeline").glob("*_202611210816*"):
        path.unlink()
    table = load_table(open_storage(str(root)))
    expected = TableDefinition("t9avro", ("id",), ("region",), "ts")
    if hours == 0:
        check_table(table, expected)
    else:
        with pytest.raises(UnsupportedTable, match=r"\+7 hours from UTC"):
            check_table(table, expected)
