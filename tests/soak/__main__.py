"""Soak the job: kill it again and again under load, then compare every row: `python -m soak --kills 20`."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from soak.fault_plan import Kind, plan
from soak.judge.figures import summary
from soak.run import Report, Settings, soak


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every row is right, else 1."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="number of faults (default %(default)s)")
    parser.add_argument("--seed", type=int, help="repeats the faults of a run; by default a new one")
    parser.add_argument("--kinds", help=f"only these, separated by commas: {', '.join(Kind)}")
    parser.add_argument("--rate", type=int, default=200, help="rows per second (default %(default)s)")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for a next commit (default %(default)s)")
    parser.add_argument("--mode", choices=("both", "checkpoint"), default="both", help="commit.mode of the attempts")
    parser.add_argument("--folder", type=Path, help="a new folder for table and logs, kept; by default a temporary one")
    parser.add_argument("--report", type=Path, help="write what was found here, as JSON")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    kinds = tuple(Kind(name) for name in given.kinds.split(",")) if given.kinds else tuple(Kind)
    settings = Settings(seed, plan(seed, given.kills, kinds), given.rate, given.patience, given.mode == "both")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is cleaned up
    _say(f"seed {seed}, {given.kills} faults")
    report = _in_temporary_folder(settings) if given.folder is None else soak(settings, given.folder, _say)
    _tell(report)
    if given.report is not None:
        given.report.write_text(json.dumps(asdict(report), indent=2, default=str) + "\n")
    return 0 if report.passed else 1


def _in_temporary_folder(settings: Settings) -> Report:
    """The folder stays when something is wrong with the table: it is the evidence."""
    with tempfile.TemporaryDirectory(prefix="bucketingest-soak-", ignore_cleanup_errors=True) as name:
        report = soak(settings, Path(name) / "run", _say)
        if not report.passed:
            kept = Path(tempfile.gettempdir()) / f"bucketingest-soak-failed-{settings.seed}-{secrets.token_hex(3)}"
            (Path(name) / "run").rename(kept)
            _say(f"table and logs are kept in {kept}")
    return report


def _tell(report: Report) -> None:
    _say(f"\n{report.faults} faults with {report.kills} SIGKILLs, {report.attempts} attempts, {report.seconds:.0f} s")
    _say(f"rows sent: {', '.join(f'{count} {kind}' for kind, count in report.sent.items())}")
    _say(
        f"writes of Hudi beside and between: {report.hudi_writes}, of which failed at first {len(report.hudi_failures)}"
    )
    _say(f"compactions of the pipeline that were completed: {report.compactions}")
    if report.hudi_services:
        _say(f"  with {', '.join(f'{name}: {count}' for name, count in report.hudi_services.items())}")
    for line in summary(report.recoveries):
        _say(line)
    for end in report.unexpected_ends:
        _say(f"attempt {end.attempt} ended by itself with {end.code}: {end.said}")
    judgement = report.judgement
    if judgement is not None:
        _say(f"{judgement.commits} commits, {judgement.archived} deltacommits archived, {judgement.rows} rows expected")
        _say(f"{judgement.bases} base files and {judgement.files} log files in latest slices")
        _say(f"{judgement.taken_back} completed instants were rolled back by Hudi and came again")
        _say(f"{judgement.overtaken} completed instants were left out of a compaction of Hudi's and came again")
        _say(
            f"lost {judgement.lost}, doubled or phantom {judgement.doubled_or_phantom}, "
            f"different {judgement.different} rows"
        )
        for line in (*judgement.wrong, *(f"left over: {what}" for what in judgement.leftovers[:20])):
            _say(line)
    if report.failure is not None:
        _say(f"FAILED: {report.failure}")
    verdict = "passed" if report.passed else "NOT passed"
    _say(f"{verdict}; `make soak KILLS={report.faults} SEED={report.seed}` does the same faults again")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
