"""A table that is written to for years, its services on: what it has of objects stops growing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bucketingest.storage import open_storage
from support.tables.services.aged_table import AgedTable
from support.tables.services.snapshot import snapshot

_START = datetime(2026, 1, 1, tzinfo=UTC)
_HISTORY_MAX = 30
"""Files of the archived history: its levels are merged."""


def test_a_table_that_grows_older_does_not_grow() -> None:
    aged = AgedTable(
        open_storage("memory://years"),
        _START,
        commit_every=timedelta(minutes=12),
        look_every=timedelta(hours=1),
        tidy_every=timedelta(hours=2),
        retain=timedelta(hours=2),
        keys=2,
    )
    aged.run(150)  # beyond the 24 hours for which the records of compactions stay
    before = aged.objects()
    aged.run(60)
    after = aged.objects()
    assert after.pop("history") <= _HISTORY_MAX
    before.pop("history")
    assert after == before
    assert sorted(snapshot(aged.inner)) == ["k0", "k1"]


def test_nor_do_directories_where_a_storage_has_them(tmp_path: Path) -> None:
    aged = AgedTable(
        open_storage(str(tmp_path)),
        _START,
        commit_every=timedelta(hours=1),
        look_every=timedelta(hours=2),
        tidy_every=timedelta(hours=4),
        retain=timedelta(hours=2),
        keys=2,
    )
    aged.run(36)  # beyond the 24 hours of the records
    before = _directories(tmp_path)
    aged.run(12)
    assert _directories(tmp_path) == before
    assert sorted(snapshot(aged.inner)) == ["k0", "k1"]


def _directories(table: Path) -> int:
    return sum(path.is_dir() for path in table.rglob("*"))
