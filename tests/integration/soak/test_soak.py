"""The job under load on a real broker, killed again and again: no row is lost, doubled or made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soak.fault_plan import plan
from soak.run import Settings, soak

KILLS = 2
SEED = 101
"""The same faults each time, as far as faults can be: `make soak` draws others."""

pytestmark = [pytest.mark.kafka, pytest.mark.hudi]


def test_kills_leave_exactly_the_rows_that_were_sent(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or SEED)
    said = [f"seed {seed}"]
    report = soak(Settings(seed, plan(seed, KILLS), patience=300.0), tmp_path / "soak", said.append)
    story = "\n".join(said)
    assert report.failure is None, f"{story}\n{report.failure}"
    assert report.judgement is not None
    assert not report.judgement.wrong, "\n".join([story, *report.judgement.wrong])
    assert report.faults == KILLS
