"""Hudi's Spark writer and ours write one table in turns; every key is checked after each step: `python -m turns`."""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.oracle.client import HudiOracle
from turns.table import BETWEEN, SharedTable, Step

_POSITION: Final = "position.pickle"
_SAVED: Final = ("number", "inserts", "expected", "unsure", "has_log_keys", "counts")
_HUDIS: Final = (
    Step.DELETE,
    Step.DELETE,
    Step.HUDI_COMPACTS,
    Step.HUDI_CLEANS,
    Step.HUDI_ARCHIVES,
    Step.HUDI_CLUSTERS,
    Step.HUDI_DELETES_PARTITION,
)
"""Instead of a plain upsert."""


def drawn(seed: str, number: int) -> Step:
    """What the seed says of a step: one of ours, one of Hudi's, its indexes in turns, and often something else."""
    chance = random.Random(f"{seed} {number}")
    if number > 1 and chance.random() < 0.2:
        return chance.choice(sorted(BETWEEN))
    if number % 2:
        return Step.OURS
    plain = Step.SIMPLE if number % 4 else Step.BLOOM
    return chance.choice(_HUDIS) if chance.random() < 0.3 else plain


def main(arguments: Sequence[str] | None = None) -> None:
    """Take steps until there are as many as asked for, or the time is over; an error ends it and names the step."""
    parser = argparse.ArgumentParser(prog="turns", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of the whole run (default %(default)s)")
    parser.add_argument("--seed", default="1", help="repeats the steps of a run (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="table and position stay here; a run that ended goes on in it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end before, between two steps")
    parser.add_argument("--spark-every", type=int, default=1, help="steps between two reads by Spark (default: 1)")
    given = parser.parse_args(arguments)
    if given.folder is None:
        with tempfile.TemporaryDirectory(prefix="bucketingest-turns-") as folder:
            _run(given, Path(folder))
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
        _run(given, given.folder)


def _run(given: argparse.Namespace, folder: Path) -> None:
    local = folder / "local"
    local.mkdir(exist_ok=True)
    tempfile.tempdir = str(local)  # where ours keeps its state
    deadline = time.monotonic() + given.minutes * 60
    with HudiOracle.start() as hudi:
        table = _opened(folder, given.seed, hudi)
        first, started = table.number + 1, time.monotonic()
        while table.number < given.steps and time.monotonic() < deadline:
            step = drawn(given.seed, table.number + 1)
            try:
                table.take(step)
                table.check(spark=table.number % given.spark_every == 0)
            except BaseException:
                _say(f"step {table.number} of seed {given.seed}, {step}; the table is in {table.path}")
                raise
            _save(table, folder)
            if table.number % 20 == 0:
                _say(_progress(table, (time.monotonic() - started) / (table.number - first + 1)))
        table.check()
        _say(f"seed {given.seed}, steps {first} to {table.number}: passed; {_progress(table, 0)}")
        for what, count in sorted(table.counts.items()):
            _say(f"  {count} {what}")


def _opened(folder: Path, seed: str, hudi: HudiOracle) -> SharedTable:
    position = folder / _POSITION
    path = folder / "table"
    if not position.exists():
        return SharedTable(path, seed, hudi)
    saved_seed, saved = pickle.loads(position.read_bytes())  # this command wrote it
    if saved_seed != seed:
        raise SystemExit(f"{position} is of seed {saved_seed}, not of {seed}: name another folder")
    return SharedTable(path, seed, hudi, **saved)


def _save(table: SharedTable, folder: Path) -> None:
    new = folder / f"{_POSITION}.new"
    new.write_bytes(pickle.dumps((table.seed, {name: getattr(table, name) for name in _SAVED})))
    new.replace(folder / _POSITION)


def _progress(table: SharedTable, seconds: float) -> str:
    live, bases = len(table.expected.live()), len(list(table.path.glob("*/*.parquet")))
    instants = len(list(table.path.glob(".hoodie/timeline/*.*")))
    there = f"{live} keys, {bases} base files, {instants} files on the timeline"
    return f"step {table.number}: {there}, {seconds:.2f} s a step"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
