"""Runs schedules, in this process or in several."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from functools import cache, partial

import stamina

from support.simulation.events import Event
from support.simulation.schedule import run_schedule
from support.simulation.verdict import Verdict

_SEEDS_AT_ONCE = 25


def run_all(
    seeds: range,
    workers: int,
    *,
    state: bool = False,
    is_global: bool = False,
    mirror: bool = False,
    event: Event | None = None,
) -> Iterator[Verdict]:
    """The verdicts, as they come."""
    run = partial(run_quietly, state=state, is_global=is_global, mirror=mirror, event=event)
    if workers == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=_SEEDS_AT_ONCE)


def run_quietly(
    seed: int,
    steps_shown: int = 60,
    *,
    state: bool = False,
    is_global: bool = False,
    mirror: bool = False,
    event: Event | None = None,
) -> Verdict:
    """One schedule, without log output about retries. `state`: its table has an index with a state; `is_global`: and a
    key is in one partition only; `mirror`: its rows are change events of a database.
    """
    _prepare()
    return run_schedule(seed, steps_shown=steps_shown, state=state, is_global=is_global, mirror=mirror, event=event)


@cache
def _prepare() -> None:
    stamina.instrumentation.set_on_retry_hooks([])
    gc.collect()
    gc.freeze()  # what was imported stays: it need not be looked at again and again
