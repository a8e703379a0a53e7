"""Runs schedules, in this process or in several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import stamina

from support.simulation.schedule import Verdict, run_schedule

_SEEDS_AT_ONCE = 25


def run_all(seeds: range, workers: int) -> Iterator[Verdict]:
    """The verdicts, as they come."""
    if workers == 1:
        yield from map(run_quietly, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run_quietly, seeds, chunksize=_SEEDS_AT_ONCE)


def run_quietly(seed: int, steps_shown: int = 60) -> Verdict:
    """One schedule, without log output about retries."""
    stamina.instrumentation.set_on_retry_hooks([])
    return run_schedule(seed, steps_shown=steps_shown)
