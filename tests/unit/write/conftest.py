"""The table that most tests of the write path are about."""

from __future__ import annotations

import pytest

from support.tables.table_runs import TestTable


@pytest.fixture
def table() -> TestTable:
    return TestTable()
