"""`make chains` and `make chains-real`: plays random chains of schemas and prints, for each compatibility mode, what
became of them. Ctrl-C or SIGTERM ends it earlier, with what was played.
"""

from __future__ import annotations

import argparse
import logging
import signal
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, fields

from devservers.registry import SchemaRegistry
from support.evolution.chains import MODES, Chain, FormatName
from support.evolution.formats import FORMATS
from support.evolution.process import Played
from support.evolution.runs import Judges, played_all
from support.oracle.client import HudiOracle

FORMAT_NAMES: list[FormatName] = list(FORMATS)


@dataclass
class Sums:
    """Of chains of one mode and format."""

    chains: int = 0
    versions: int = 0
    messages: int = 0
    letters: int = 0
    rounded: int = 0
    refused: int = 0
    kills: int = 0
    growths: int = 0
    compactions: int = 0
    hudi: int = 0
    commits: int = 0

    def add(self, of: Played) -> None:
        self.chains += 1
        self.versions += of.versions
        self.messages += of.messages
        self.letters += of.letters
        self.rounded += of.rounded
        self.refused += len(of.refused)
        self.kills += of.kills
        self.growths += of.growths
        self.compactions += of.compactions
        self.hudi += of.beside
        self.commits = max(self.commits, of.commits)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chains", description=__doc__)
    parser.add_argument("--chains", type=int, default=210, help="how many, in turns of mode and format")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--real", action="store_true", help="with a real registry, Hudi's Spark readers and its writer")
    parser.add_argument("--batch", type=int, default=42, help="so many tables are read by Spark at once")
    asked = parser.parse_args()
    numbers = (
        range(asked.first, asked.first + asked.chains) if asked.seed is None else range(asked.seed, asked.seed + 1)
    )
    logging.disable(logging.CRITICAL if asked.seed is None else logging.NOTSET)
    sums: defaultdict[tuple[str, FormatName], Sums] = defaultdict(Sums)
    failed = 0
    began, began_at = time.process_time(), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _judges() if asked.real else nullcontext() as judges:
            for at in range(0, len(numbers), asked.batch):
                some = numbers[at : at + asked.batch]
                for number, result in played_all(some, judges):
                    seed, format_ = divmod(number, len(FORMATS))
                    mode = Chain.of(seed, FORMAT_NAMES[format_]).mode
                    if isinstance(result, Played):
                        sums[mode, FORMAT_NAMES[format_]].add(result)
                    else:
                        failed += 1
                        why = "".join(traceback.format_exception(result, limit=-3))
                        print(f"failed: SEED={number} ({mode}, {FORMAT_NAMES[format_]})\n{why}", flush=True)
                if asked.real:
                    print(f"{at + len(some)} played, {failed} failed", flush=True)
    except KeyboardInterrupt:
        print("ended before")
    print(f"{'mode':20} {'format':9}", *(f"{each.name:>11}" for each in fields(Sums)))
    for mode in MODES:
        for name in FORMAT_NAMES:
            print(f"{mode:20} {name:9}", *(f"{each:11}" for each in astuple(sums[mode, name])))
    count = failed + sum(each.chains for each in sums.values())
    took, used = (each / max(count, 1) for each in (time.monotonic() - began_at, time.process_time() - began))
    print(f"{count} chains, {failed} failed; each {took:.2f} s, {used:.2f} s of processor time of this process")
    return min(failed, 1)


@contextmanager
def _judges() -> Iterator[Judges]:
    with SchemaRegistry() as registry, HudiOracle.start() as oracle:
        yield Judges(registry, oracle)


if __name__ == "__main__":
    raise SystemExit(main())
