"""A database that changes while everything around it is killed: the table here has its rows, and each commit whole
transactions.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirror.run import Settings, mirror

SEED = 7
"""The same changes each time: `make mirror` draws others, and has MariaDB, too."""

pytestmark = pytest.mark.kafka


def test_a_table_of_postgresql_is_the_same_here_after_changes_and_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or SEED)
    said = [f"seed {seed}"]
    settings = Settings("postgresql", seed, looks=1, transactions=150, kills=2, keys=60, whole=True, most=500)
    report = mirror(settings, tmp_path, said.append)
    assert (report.looks, sum(report.kills.values())) == (2, 2), said
    assert report.changes["transactions"] > 100, report.changes
    assert report.commits >= report.looks + sum(report.kills.values()), report.commits
