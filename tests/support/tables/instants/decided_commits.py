"""Attempts that die before their completed file, and what other writers put onto the timeline meanwhile."""

from __future__ import annotations

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from support.storage.flaky_storage import FlakyStorage
from support.tables.other_writers import commit, schedule_compaction
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

FIRST = [row("k0", amount=1), row("k1", amount=2)]
SECOND = [row("k2", amount=3)]
ALL = ((offsets(0, 2), FIRST), (offsets(2, 3), SECOND))


def is_completed_file(path: str) -> bool:
    return path.endswith(".deltacommit") and "/timeline/" in path


def leave_decided(table: TestTable) -> str:
    """An attempt that dies between its decision and the completed file; the instant."""
    with pytest.raises(BucketIngestError):
        table.attempt(FlakyStorage(table.storage, is_completed_file)).run(*ALL[1])
    (instant,) = table.timeline().pending
    return instant.request_time


def by_a_compaction(table: TestTable) -> None:
    schedule_compaction(table)


def by_a_commit(table: TestTable) -> None:
    commit(table, CommitMetadata())
