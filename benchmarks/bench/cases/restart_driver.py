"""`bucketingest` with a stopwatch: records when each stage between the start of the process and its first commit
ended, by the clock that all processes of the machine share.

Usage: python -m bench.cases.restart_driver MARKS_FILE ARGUMENTS... with the arguments of `bucketingest`.
"""

# ruff: noqa: PLC0415 - this measures the imports

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Stages:
    """Marks in a file, one JSON line each, only the first end of each stage."""

    file: Path
    _marked: set[str] = field(default_factory=set)

    def mark(self, stage: str) -> None:
        """The stage has ended now."""
        if stage not in self._marked:
            self._marked.add(stage)
            with self.file.open("a") as lines:
                lines.write(json.dumps({"stage": stage, "at": time.monotonic()}) + "\n")

    def around(
        self, owner: Any, name: str, *, before: str | None = None, after: str | None = None, once: Any = None
    ) -> None:
        """Mark when a function or method is called and when it has returned; `once`: only if it is true of the
        result.
        """
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.mark(before)
            result = original(*args, **kwargs)
            if after is not None and (once is None or once(result)):
                self.mark(after)
            return result

        setattr(owner, name, wrapped)


def main(marks: str, arguments: list[str]) -> int:
    """Run the command line; returns its exit code."""
    stages = Stages(Path(marks))
    stages.mark("interpreter")
    from bucketingest.cli.main import call

    stages.mark("command line: imports")
    from bucketingest.stream.spark import session

    stages.mark("PySpark: imports")
    build: Callable[[Any], Any] = session.build_session

    def build_session(resource: Any) -> Any:
        # Only now the job's modules are all imported: while the JVM started, which this must not disturb.
        _watch_the_job(stages)
        return build(resource)

    session.build_session = build_session
    stages.around(session, "start_jvm", before="resource read, table checked", after="JVM, the job's imports meanwhile")
    return call(arguments)


def _watch_the_job(stages: Stages) -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from bucketingest.stream.foreach_batch import MicroBatchFunction
    from bucketingest.write.coordinator import InstantCoordinator
    from bucketingest.write.instants.journal import Journal

    ingest = importlib.import_module("bucketingest.stream.ingestion")
    stages.around(ingest, "read_source", before="Spark session")
    stages.around(ingest, "open_table", before="source, schema", after="table opened")
    stages.around(InstantCoordinator, "start", after="what was left recovered")
    stages.around(DataStreamWriter, "start", before="checkpoint written", after="query started")
    stages.around(MicroBatchFunction, "__call__", before="offsets, micro-batch planned")
    stages.around(Journal, "put_ledger", before="rows read and written")
    stages.around(InstantCoordinator, "run", after="committed", once=lambda outcome: outcome.commit is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
