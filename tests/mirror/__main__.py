"""Mirror a database under kills, and compare every row again and again: `python -m mirror --database mariadb`."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mirror.run import SOURCES, Settings, mirror
from support.oracle.client import HudiOracle


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every row was right at each look; what is wrong is raised."""
    parser = argparse.ArgumentParser(prog="mirror", description=__doc__)
    parser.add_argument("--database", choices=tuple(SOURCES), default="postgresql")
    parser.add_argument("--seed", type=int, help="repeats the changes of a run; by default a new one")
    parser.add_argument("--looks", type=int, default=5, help="how often all is compared (default %(default)s)")
    parser.add_argument("--transactions", type=int, default=500, help="between two looks (default %(default)s)")
    parser.add_argument("--kills", type=int, default=2, help="between two looks (default %(default)s)")
    parser.add_argument("--keys", type=int, default=300, help="of single rows (default %(default)s)")
    parser.add_argument("--no-truncates", action="store_true")
    parser.add_argument("--whole", action="store_true", help="each commit must have whole transactions")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is cleaned up
    started = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - started:6.0f} s  {line}\n")
        sys.stdout.flush()

    say(f"{given.database}, seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="bucketingest-mirror-"))
    say(f"table and logs stay in {folder}")
    truncates = not given.no_truncates
    amounts = (given.looks, given.transactions, given.kills, given.keys)
    settings = Settings(given.database, seed, *amounts, truncates, given.whole, most=3000)
    with HudiOracle.start() as oracle:
        report = mirror(settings, folder, say, oracle)
    say(f"changes: {report.changes}")
    if given.whole:
        say(f"{report.commits} commits show whole transactions")
    say(f"{report.events} events, kills: {report.kills}, {report.rows} rows compared in {report.looks} looks: the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
