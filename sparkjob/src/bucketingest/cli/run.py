"""`bucketingest run`: one pipeline in this process, from the first check to the last process it started."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live

from bucketingest.cli.errors import MissingDependency
from bucketingest.cli.java import check_java
from bucketingest.cli.signals import StopSignals
from bucketingest.hudi.errors import TableNotFound
from bucketingest.hudi.table import load_table
from bucketingest.hudi.table_checks import check_table
from bucketingest.spec.load import load_file
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage

if TYPE_CHECKING:
    from bucketingest.stream.pipeline import Pipeline
    from bucketingest.stream.progress import Progress
    from bucketingest.stream.running import RunningIngest

log = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 0.5

StopWhen = Callable[["Progress"], bool]
"""Asked twice a second; true ends the ingestion as a first Ctrl-C does."""


def run_file(file: Path, *, once: bool) -> None:
    """Run the file's pipeline until it ends or is told to. Raises what `load_file` and `run_resource` do."""
    resource = load_file(file)
    if resource.spec.suspend:
        log.info("spec.suspend is true: nothing is run", extra={"pipeline": resource.pipeline})
        return
    run_resource(resource, once=once)


def run_resource(resource: BucketIngest, *, once: bool = False, stop_when: StopWhen | None = None) -> Progress:
    """Run the pipeline in a Spark of its own; returns the last progress. No process is left behind.

    Raises MissingDependency, and every error family below `BucketIngestError`.
    """
    check_java()
    try:
        from bucketingest.stream import Pipeline, ingest_resource
        from bucketingest.stream.jvm import has_jvm, kill_jvm, stop_jvm
        from bucketingest.stream.session import build_session
    except ImportError as error:
        raise MissingDependency(
            f"the Python package {error.name} is missing; install the job's: pip install 'bucketingest[spark,cli]'"
        ) from error
    _refuse_early(Pipeline.of(resource))
    signals = StopSignals(kill_jvm)
    ends_with_us = not has_jvm()  # one that a caller in this process started is the caller's to end
    with signals.installed():
        try:
            session = build_session(resource)
            signals.install()
            running = ingest_resource(session, resource, once=once)
            progress = _watch(resource, running, signals, stop_when)
        finally:
            if ends_with_us:
                _stop_session()
                stop_jvm()
    log.info("stopped", extra={"pipeline": resource.pipeline, "batches": progress.batches, "rows": progress.rows})
    return progress


def _refuse_early(pipeline: Pipeline) -> None:
    """Refuse a table that the pipeline may not write before a JVM is started; opening it checks again."""
    try:
        table = load_table(open_storage(pipeline.table_url, pipeline.storage_options))
    except TableNotFound:
        return
    check_table(table, pipeline.definition)


def _stop_session() -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        try:
            session.stop()
        except Exception as error:  # noqa: BLE001 - the JVM may be gone; what ended it is told elsewhere
            log.debug("the session could not be stopped", extra={"reason": str(error)})


def _watch(
    resource: BucketIngest, running: RunningIngest, signals: StopSignals, stop_when: StopWhen | None
) -> Progress:
    stopping = False
    with _display(resource, running) as show:
        while not running.wait(_REFRESH_SECONDS):
            show("finishing the micro-batch; Ctrl-C again ends at once" if stopping else "")
            enough = stop_when is not None and stop_when(running.progress())
            if not stopping and (signals.first is not None or enough):
                stopping = True
                running.request_stop()
                if signals.first is not None:
                    log.info(
                        "stopping after the micro-batch that is being written; a second signal ends at once",
                        extra={"signal": signals.first.name},
                    )
        show("stopped")
    return running.progress()


@contextmanager
def _display(resource: BucketIngest, running: RunningIngest) -> Iterator[Callable[[str], None]]:
    """A function that shows the progress of now, with a note: in a terminal a panel, elsewhere nothing but the log."""
    from bucketingest.cli.live import Latencies, panel

    latencies = Latencies()
    console = Console(stderr=True)
    title = f"{resource.pipeline} → {resource.spec.table.path}"
    live = Live(console=console, auto_refresh=False) if sys.stderr.isatty() else None

    def show(note: str) -> None:
        if live is not None:
            progress = running.progress()
            latencies.observe(progress)
            live.update(panel(title, progress, latencies, note), refresh=True)

    with live or nullcontext():
        yield show
