"""Runs schedules, in this process or in several."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator

import stamina

from support.simulation.schedule import Verdict, run_schedule

Task = tuple[int, int, bool]
"""Seed, steps shown of a failure, whether other writers take completed instants back."""


def run_one(task: Task) -> Verdict:
    """One schedule, with the waiting of retries left out."""
    logging.disable(logging.CRITICAL)
    stamina.instrumentation.set_on_retry_hooks([])
    stamina.set_testing(testing=True, attempts=10, cap=True)
    seed, steps_shown, late_rollbacks = task
    return run_schedule(seed, steps_shown=steps_shown, late_rollbacks=late_rollbacks)


def run_all(tasks: list[Task], workers: int) -> Iterator[Verdict]:
    """The verdicts, as they come."""
    if workers == 1:
        yield from map(run_one, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run_one, tasks, chunksize=25)
