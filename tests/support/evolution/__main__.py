"""`make chains`: plays random chains of schemas and prints, for each compatibility mode, what became of them. Ctrl-C or
SIGTERM ends it earlier, with what was played.
"""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
import traceback
from collections import defaultdict
from pathlib import Path

from support.evolution.chains import MODES, Chain, FormatName
from support.evolution.formats import FORMATS
from support.evolution.process import Played, played

_IN_MEMORY = next((each for each in ("/dev/shm",) if Path(each).is_dir()), None)
"""Where tables are written and read at once."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chains", description=__doc__)
    parser.add_argument("--chains", type=int, default=210, help="how many, in turns of mode and format")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    asked = parser.parse_args()
    numbers = range(asked.first, asked.first + asked.chains) if asked.seed is None else [asked.seed]
    logging.disable(logging.CRITICAL if asked.seed is None else logging.NOTSET)
    formats: list[FormatName] = list(FORMATS)
    results: defaultdict[tuple[str, str], list[Played]] = defaultdict(list)
    failed: list[str] = []
    began = time.process_time()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number in numbers:
            seed, format_ = number // len(formats), formats[number % len(formats)]
            mode = Chain.of(seed, format_).mode
            try:
                with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder:
                    results[mode, format_].append(played(Path(folder), seed, format_))
            except Exception:  # noqa: BLE001 - whatever it is, it is a chain that failed
                failed.append(f"SEED={number} ({mode}, {format_})\n{traceback.format_exc(limit=-3)}")
                print(f"failed: {failed[-1]}", flush=True)
    except KeyboardInterrupt:
        print(f"ended in chain {number}")
    print(f"{'mode':20} {'format':9} chains messages  dead rounded refused kills grown compacted")
    for mode in MODES:
        for format_ in formats:
            print(_line(mode, format_, results[mode, format_]))
    all_played = sum(map(len, results.values())) + len(failed)
    seconds = (time.process_time() - began) / max(all_played, 1)
    print(f"{all_played} chains, {len(failed)} failed; {seconds:.2f} s of processor time for each")
    return min(len(failed), 1)


def _line(mode: str, format_: str, of: list[Played]) -> str:
    sums = [
        sum(counts)
        for counts in zip(
            *(
                (
                    each.messages,
                    each.letters,
                    each.rounded,
                    len(each.refused),
                    each.kills,
                    each.growths,
                    each.compactions,
                )
                for each in of
            ),
            strict=True,
        )
    ] or [0] * 7
    widths = (8, 5, 7, 7, 5, 5, 9)
    numbers = " ".join(f"{each:{width}}" for each, width in zip(sums, widths, strict=True))
    return f"{mode:20} {format_:9} {len(of):6} {numbers}"


if __name__ == "__main__":
    raise SystemExit(main())
