"""Runs many schedules, or one again: `python -m support.simulation --seeds 10000`, `--seed 123`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable

from support.simulation.runs import run_all, run_one
from support.simulation.schedule import Verdict

_REPORTS_MAX = 3
_LINE_MAX = 200


def main(arguments: list[str]) -> int:
    """Exit code 1 if a schedule ended wrong."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules, of seeds 0, 1, ...")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one, with all its steps")
    parser.add_argument("--workers", type=int, default=2, help="processes that run schedules at the same time")
    parser.add_argument("--late-rollbacks", action="store_true", help="other writers take back completed instants, too")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        verdict = run_one((options.seed, 10_000, options.late_rollbacks))
        print(verdict.report)
        return bool(verdict.violations)
    tasks = [(seed, 60, options.late_rollbacks) for seed in range(options.first, options.first + options.seeds)]
    return summarise(run_all(tasks, options.workers))


def summarise(verdicts: Iterable[Verdict]) -> int:
    """Print what was run and the first failures; exit code 1 if there is one."""
    started = time.monotonic()
    failed: list[Verdict] = []
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts.update(schedules=1, processes=verdict.processes, commits=verdict.commits, calls=verdict.calls)
        counts[verdict.kind] += 1
        if verdict.violations:
            failed.append(verdict)
            if len(failed) <= _REPORTS_MAX:
                print(verdict.report, flush=True)
            else:
                print(f"seed {verdict.seed} ({verdict.kind}): {verdict.violations[0][:_LINE_MAX]}", flush=True)
    seconds = time.monotonic() - started
    print(
        f"{counts['schedules']} schedules in {seconds:.0f} s ({counts['schedules'] / seconds:.0f}/s): "
        f"{counts['processes']} processes, {counts['commits']} commits, {counts['calls']} storage calls; "
        f"{len(failed)} failed"
    )
    if failed:
        print("seeds that failed:", *(str(verdict.seed) for verdict in failed[:200]))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
