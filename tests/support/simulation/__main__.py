"""Runs many schedules, or one again: `python -m support.simulation --seeds 10000`, `--seed 123`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable

from support.simulation.events import EVENTS
from support.simulation.runs import run_all, run_quietly
from support.simulation.verdict import PAUSES, Verdict

_REPORTS_MAX = 3
_LINE_MAX = 200
_ALL_STEPS = 100_000


def main(arguments: list[str]) -> int:
    """Exit code 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules, of seeds 0, 1, ...")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one, with all its steps")
    parser.add_argument("--workers", type=int, default=2, help="processes that run schedules at the same time")
    parser.add_argument("--state", action="store_true", help="tables have an index with a state, not with buckets")
    parser.add_argument(
        "--global", action="store_true", dest="is_global", help="the same, and a key is in one partition only"
    )
    parser.add_argument("--mirror", action="store_true", help="rows are change events of a database, with truncates")
    parser.add_argument("--event", choices=EVENTS, help="what every schedule is built around")
    options = parser.parse_args(arguments)
    kind = {
        "state": options.state or options.is_global,
        "is_global": options.is_global,
        "mirror": options.mirror,
        "event": options.event,
    }
    if options.seed is not None:
        verdict = run_quietly(options.seed, _ALL_STEPS, **kind)
        print(verdict.report)
        return bool(verdict.violations)
    return summarise(run_all(range(options.first, options.first + options.seeds), options.workers, **kind))


def summarise(verdicts: Iterable[Verdict]) -> int:
    """Print what was run and what failed; exit code 1 if anything did."""
    started = time.monotonic()
    failed: list[Verdict] = []
    total = 0
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        total += 1
        counts.update(verdict.counts)
        if verdict.violations:
            failed.append(verdict)
            brief = f"seed {verdict.seed} ({verdict.kind}): {verdict.violations[0][:_LINE_MAX]}"
            print(verdict.report if len(failed) <= _REPORTS_MAX else brief, flush=True)
    seconds = time.monotonic() - started
    for what, count in counts.items():
        if not what.startswith(PAUSES):
            print(f"{count:10} {what}")
    report_pauses(counts)
    print(f"{total} schedules in {seconds:.0f} s ({total / seconds:.0f}/s), {len(failed)} failed")
    if failed:
        print("seeds that failed:", *sorted(verdict.seed for verdict in failed))
    return bool(failed)


def report_pauses(counts: Counter[str]) -> None:
    """Print which kinds of requests were paused for longer than any limit, and which never were."""
    seen, within, before = ({what.removeprefix(part) for what in counts if what.startswith(part)} for part in PAUSES)
    if seen:
        print(f"{len(seen)} kinds of requests, paused within {len(within)}, before {len(before)}")
    for kind in sorted(seen - (within & before)):
        missing = " or ".join(name for name, paused in (("within", within), ("before", before)) if kind not in paused)
        print(f"{counts[PAUSES[0] + kind]:10} {kind}: not {missing}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
