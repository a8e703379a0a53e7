"""A table to which a writer with a clock days ahead has written stays usable: times go on after its own."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import End
from support.tables.services.compactions import compact
from support.tables.services.snapshot import snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


def test_ingestion_and_services_go_on_after_a_commit_of_a_clock_three_days_ahead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 1), [row("k0", at=1)])
    table.attempt(clock=lambda: utc_now() + timedelta(days=3)).run(offsets(1, 2), [row("k1", at=2)])
    with caplog.at_level(logging.WARNING):
        attempt = table.attempt()
    assert "a writer's clock was ahead" in caplog.text
    assert attempt.coordinator.position == offsets(1, 2)
    attempt.run(offsets(2, 3), [row("k0", at=3)])
    times = [each.completion_time or "" for each in table.timeline().completed_commits]
    assert times == sorted(times)
    rows = snapshot(table.storage)
    assert rows.keys() == {"k0", "k1"}
    assert compact(table.storage) == [End.COMPLETED]
    guarded = Guarded(table.storage, nullcontext, lambda: None)
    clean(guarded, Retention(versions=1))
    archive_old(guarded, ArchiveRules(keep_min=1, min_age=timedelta(0)))
    assert snapshot(table.storage) == rows
    table.attempt().run(offsets(3, 4), [row("k2", at=4)])
    assert snapshot(table.storage).keys() == {"k0", "k1", "k2"}
