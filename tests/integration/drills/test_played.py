"""Outages of minutes and hours, played: exactly which alerts fire when, and that they end with their cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drills.played import play
from support.drills.recording import judge
from support.drills.register import SITUATIONS
from support.drills.situation import Situation


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.story)
def test_exactly_these_alerts_fire_in_time(situation: Situation, tmp_path: Path) -> None:
    pipeline = play(situation.plays)
    assert judge(pipeline.recording, situation.expected, tmp_path) == ""
