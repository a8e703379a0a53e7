"""Run benchmarks and write their report: `python -m bench --cases upsert-11-columns --rows 200000`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.cases.catalog import CASES
from bench.cases.comparison import Options
from bench.report import write_report
from bench.results_format import load_cases, save_cases

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases one after the other; each is saved when it is done, so a later failure loses nothing."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--cases", default="all", help=f"names separated by commas, or all: {', '.join(CASES)}")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of one repetition (memory: ten times that)")
    parser.add_argument("--repeats", type=int, default=3, help="measured repetitions; a warm-up comes before them")
    parser.add_argument("--name", default="local", help="name of the result files; cases measured before stay in them")
    parser.add_argument("--scratch", type=Path, help="folder for inputs and tables; inputs in it are used again")
    parser.add_argument("--load-max", type=float, default=1.0, help="wait before a repetition until the load is below")
    parser.add_argument("--wait", type=float, default=60.0, help="but no longer than so many seconds")
    parser.add_argument("--report", action="store_true", help="write the report of existing results; run nothing")
    given = parser.parse_args(arguments)
    names = list(CASES) if given.cases == "all" else given.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    results = RESULTS / f"{given.name}.json"
    with tempfile.TemporaryDirectory(prefix="bucketingest-bench-") as temporary:
        options = Options(given.scratch or Path(temporary), given.rows, given.repeats, given.load_max, given.wait, _say)
        for name in [] if given.report else names:
            _say(name)
            for case in CASES[name].run(options):
                save_cases(results, [case])
                _say(
                    f"  {case.case}: ours {case.ours.median:,.0f}, peer {case.peer.median:,.0f} {case.unit}: "
                    f"{case.ratio:.2f}x"
                )
    write_report(load_cases(results), results.with_suffix(".md"), results.with_suffix(".png"))
    _say(f"written: {results.with_suffix('.md')}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
