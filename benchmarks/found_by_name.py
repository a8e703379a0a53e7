"""From a table's first commit to its name in a Hive metastore and in Glue, and what two catalogs cost a commit.

In turns: a job with catalogs, a job without. Each takes files, and every file is a commit with a new partition. The
metastore (on Derby), Glue's double and the job share this machine. Run it with PYTHONPATH=tests:benchmarks:tools from
the project's folder.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cases.steady.job import percentile
from bucketingest.exit_codes import ExitCode
from support.catalogs.glue_server import running_glue
from support.catalogs.lake_run import LakeRun
from support.catalogs.metastore import Metastore, running_metastore
from support.jobs.command_process import CommandProcess
from support.oracle.environment import find_environment

_POLL_SECONDS = 0.02
_WAIT_SECONDS = 300.0
_COMMANDS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "eu-west-1"}


@dataclass
class Side:
    """Jobs with catalogs, or without."""

    found: dict[str, list[float]] = field(default_factory=dict)
    """Catalog -> seconds from the completed file of each job's first commit to the table's name."""
    commits: list[float] = field(default_factory=list)
    """Seconds from a file to its completed commit."""


def main() -> None:
    """Print a line for each turn, then the whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--files", type=int, default=60, help="commits of a job")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # of a metastore that does not answer yet
    sides = {True: Side(), False: Side()}
    with TemporaryDirectory() as name, running_glue() as (endpoint, glue):
        folder = Path(name)
        os.environ.update(_COMMANDS, AWS_ENDPOINT_URL_GLUE=endpoint)
        with running_metastore(find_environment(), folder / "metastore") as metastore:
            for turn in range(2 * given.turns):
                with_catalogs = turn % 2 == 0
                _turn(folder / str(turn), sides[with_catalogs], metastore if with_catalogs else None, glue, given.files)
    for catalog, seconds in sides[True].found.items():
        print(f"{catalog}: found {max(seconds):.1f} s after the first commit at the latest, of {len(seconds)} tables")
    for with_catalogs, side in sides.items():
        ordered, label = sorted(side.commits), "with two catalogs" if with_catalogs else "without"
        p50, p90 = (percentile(ordered, each) for each in (50, 90))
        print(f"a commit {label}: median {p50:.2f} s, p90 {p90:.2f} s of {len(ordered)} commits")


def _turn(folder: Path, side: Side, metastore: Metastore | None, glue: Any, files: int) -> None:
    folder.mkdir()
    run, name = LakeRun(folder), f"orders{folder.name}"
    catalogs: list[dict[str, Any]] = []
    looks: dict[str, Callable[[], bool]] = {}
    if metastore is not None:
        catalogs = [
            {"glue": {"region": "eu-west-1", "database": "lake", "table": name}},
            {"hive": {"uri": metastore.uri, "database": "default", "table": name}},
        ]
        looks = {"glue": lambda: _in_glue(glue, name), "hive": lambda: _in_hive(metastore, name)}
    with CommandProcess("run", run.describe(catalogs), log=folder / "log") as process:
        run.feed("r0")
        _wait(process, run.is_committed)
        first = min(each.stat().st_mtime for each in Path(run.table, ".hoodie/timeline").glob("*_*.deltacommit"))
        while looks:
            _wait(process, lambda: any(look() for look in looks.values()))
            for catalog in [catalog for catalog, look in looks.items() if look()]:
                del looks[catalog]
                side.found.setdefault(catalog, []).append(time.time() - first)
        commits = []
        for number in range(1, files):
            began = time.perf_counter()
            run.feed(f"r{number}")
            _wait(process, run.is_committed)
            commits.append(time.perf_counter() - began)
        process.signal(signal.SIGINT)
        if process.wait() != ExitCode.OK:
            raise RuntimeError(process.output)
    side.commits += commits
    found = ", ".join(f"{catalog} {seconds[-1]:.1f} s" for catalog, seconds in side.found.items() if catalogs)
    load = os.getloadavg()[0]
    print(
        f"{name}: {found or 'no catalogs'}, median commit {statistics.median(commits):.2f} s; load {load:.1f}",
        flush=True,
    )


def _wait(process: CommandProcess, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not reached():
        if process.ended() is not None or time.monotonic() > deadline:
            raise RuntimeError(process.output)
        time.sleep(_POLL_SECONDS)


def _in_glue(glue: Any, name: str) -> bool:
    return any(each["Name"] == name for each in glue.get_tables(DatabaseName="lake")["TableList"])


def _in_hive(metastore: Metastore, name: str) -> bool:
    client = metastore.connect()
    try:
        return client.find(name) is not None
    finally:
        client.close()


if __name__ == "__main__":
    main()
