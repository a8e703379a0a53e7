"""A table to compact, without and with base files."""

from __future__ import annotations

import pytest

from support.tables.services.compactions import (
    Written,
    written,
)


@pytest.fixture(params=[False, True], ids=["logs only", "base files"])
def given(request: pytest.FixtureRequest) -> Written:
    return written(base_files=request.param)
