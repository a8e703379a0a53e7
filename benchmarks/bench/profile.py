"""Where our side's Python workers spend their time: a flame graph of one repetition of a case.
`python -m bench.profile --case kafka-json`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.cases.catalog import CASES, Upsert
from bench.cases.comparison import Options, check_rows
from bench.cases.inputs import in_kafka, make_inputs
from bench.sides.start import Target, start_ours

RESULTS = Path(__file__).resolve().parents[1] / "results"
_UPSERTS = {name: case for name, case in CASES.items() if isinstance(case, Upsert)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Load, warm up, then sample one repetition."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__)
    parser.add_argument("--case", default="kafka-json", choices=_UPSERTS)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the repetition")
    parser.add_argument("--name", default="local", help="of the result file")
    given = parser.parse_args(arguments)
    result = RESULTS / f"flame-{given.case}-{given.name}.svg"
    with tempfile.TemporaryDirectory(prefix="bucketingest-bench-") as temporary:
        options = Options(Path(temporary), given.rows, 1, load_max=1.0, wait_seconds_max=0.0, say=print)
        _sample(_UPSERTS[given.case], options, result)
    sys.stdout.write(f"written: {result}\n")


def without_commands(graph: str) -> str:
    """py-spy's graph with a title of its own, and without the commands of the processes: they name its folders."""
    named = re.sub(r"process (\d+):&quot;[^<]*?(?:&quot;(?= \()|(?=<))", _named, graph)
    return re.sub(r'(y="24\.00">)[^<]*', r"\1bucketingest's Python workers", named, count=1)


def _named(process: re.Match[str]) -> str:
    command = process[0]
    for part, name in (("bench.sides", "driver"), ("SparkSubmit", "JVM"), ("worker_daemon", "Python worker")):
        if part in command:
            return f"{name} {process[1]}"
    return f"process {process[1]}"


def _sample(case: Upsert, options: Options, result: Path) -> None:
    sources, _ = make_inputs(case.dataset, options)
    target = Target(options.scratch / "ours", case.dataset, case.log_block)
    target.folder.mkdir()
    with contextlib.ExitStack() as running:
        if case.source != "files":
            sources = running.enter_context(in_kafka(case.dataset, sources, case.source, options))
        ours = running.enter_context(start_ours(target.folder))
        for number, source in enumerate((sources.load, sources.warm_up, sources.wake_up)):
            ours.ask(**target.ours(source, number))
        # Native frames: most of the time is Arrow's. The session's process is the root; its workers are what counts.
        spy = str(Path(sys.executable).with_name("py-spy"))
        command = [spy, "record", "--pid", str(ours.pid), "--subprocesses", "--native", "--function", "--rate", "200"]
        sampling = subprocess.Popen([*command, "--format", "flamegraph", "--output", str(result)])
        try:
            ours.ask(**target.ours(sources.measured, 3))
        finally:
            sampling.send_signal(signal.SIGINT)
            sampling.wait(60)
        check_rows(target, options.rows)
    result.write_text(without_commands(result.read_text()))
    shutil.rmtree(target.folder)


if __name__ == "__main__":
    main()
