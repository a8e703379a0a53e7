"""Which files a compaction's operation supersedes without merging them."""

from __future__ import annotations

import pytest

from bucketingest.hudi.plans.compaction_plan import CompactionOperation

ON_BASE = CompactionOperation("eu", "f", "10", "base", ("log",))
"""The base file's compaction was requested at 10 and completed at 15."""
LOGS_ONLY = CompactionOperation("eu", "f", "10", None, ("log",))


@pytest.mark.parametrize(
    ("operation", "file", "completed", "lost"),
    [
        (ON_BASE, "log", "16", False),
        (ON_BASE, "other", "16", True),
        (ON_BASE, "other", "09", False),  # in an older slice
        (ON_BASE, "base", "15", False),
        (ON_BASE, "another base", "15", True),
        (LOGS_ONLY, "other", "09", True),
    ],
)
def test_a_file_is_lost_if_it_is_superseded_and_not_merged(
    operation: CompactionOperation, file: str, completed: str, lost: bool
) -> None:
    """The base file that is merged is the work of the compaction before, which completed after its base instant."""
    assert operation.loses(file, completed) is lost
