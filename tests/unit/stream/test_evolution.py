"""Random chains of schemas: hudi-rs shows the rows that the rules promise, whatever comes between, and no others are
dead letters. BUCKETINGEST_CHAINS=0-1000 plays these instead.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.evolution.chains import FormatName
from support.evolution.formats import FORMATS
from support.evolution.process import played

FIRST, _, LAST = os.environ.get("BUCKETINGEST_CHAINS", "0-14").partition("-")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
@pytest.mark.parametrize("format_", FORMATS)
def test_each_row_is_read_as_the_union_of_all_schemas(tmp_path: Path, format_: FormatName, seed: int) -> None:
    assert played(tmp_path, seed, format_).messages
