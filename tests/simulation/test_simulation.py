"""Schedules of faults, zombies, table services and other writers; `make simulate SEEDS=10000` runs many more."""

from __future__ import annotations

import pytest

from support.simulation.events import features_of, varied_seeds
from support.simulation.runs import run_quietly

SEEDS = varied_seeds(4)
AT_ONCE = 8


@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_no_schedule_loses_doubles_or_leaves_anything(first: int) -> None:
    verdicts = [run_quietly(seed) for seed in SEEDS[first : first + AT_ONCE]]
    wrong = [verdict.report for verdict in verdicts if verdict.violations]
    assert not wrong, "\n\n".join(wrong)


def test_changes_of_the_timeline_come_after_their_instants_were_archived() -> None:
    """Without being aimed at they hardly ever do; which schedules have one changes with each request of a writer."""
    aimed = filter(lambda seed: features_of(seed).outlived, range(1000))
    verdict = next(verdict for verdict in map(run_quietly, aimed) if verdict.counts["lands below the archive"])
    assert not verdict.violations, verdict.report


def test_a_seed_gives_the_same_schedule_again() -> None:
    once, again = run_quietly(7, 10_000), run_quietly(7, 10_000)
    assert [step for step in once.steps if "probe" not in step] == [s for s in again.steps if "probe" not in s]
    assert once.counts == again.counts
