"""`bucketingest run`: one pipeline in this process, from the first check to the last process it started."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.live import Live

from bucketingest.cli.connect.offline import offline_problems
from bucketingest.cli.errors import MissingDependency
from bucketingest.cli.job import Job
from bucketingest.cli.options import Address, RunOptions, load_known
from bucketingest.cli.process.java import check_java
from bucketingest.cli.process.logs import without_routine
from bucketingest.cli.process.secret_watch import SecretWatch
from bucketingest.cli.process.signals import StoppedEarly
from bucketingest.spec.errors import SpecError
from bucketingest.spec.model import BucketIngest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketingest.stream.report.board import ProgressBoard
    from bucketingest.stream.report.progress import Progress
    from bucketingest.stream.running import RunningIngest
    from bucketingest.stream.tables.running import RunningTables

    Running = RunningIngest | RunningTables

log = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 0.5

T = TypeVar("T")
StopWhen = Callable[["Progress"], bool]
"""Called twice a second; True stops the ingestion as the first Ctrl-C does."""


def run_file(file: Path, options: RunOptions) -> None:
    """Run the file's pipeline until it ends or a signal stops it. Raises what `load_file` and `run_resource` do."""
    job = Job(options)
    with suppress(StoppedEarly), job.ending():
        resource = load_known(file, options.unknown_fields)
        job.concerns(resource)
        if resource.spec.suspend:
            log.info("spec.suspend is true: nothing is run", extra={"pipeline": resource.pipeline})
            return
        _run(resource, job)


def run_resource(resource: BucketIngest, *, stop_when: StopWhen, listen: Address | None = None) -> Progress:
    """Run the pipeline in a Spark of its own until `stop_when` says so; returns the last progress.

    No process is left behind. Raises MissingDependency, and every error family below `BucketIngestError`.
    """
    job = Job(RunOptions(listen=listen))
    with job.ending():
        return _run(resource, job, stop_when)


def _run(resource: BucketIngest, job: Job, stop_when: StopWhen | None = None) -> Progress:
    def ingest(session: SparkSession, board: ProgressBoard) -> Progress:
        return _watch(resource, _started(session, resource, job.options, board), job, stop_when)

    progress = in_spark(resource, job, ingest)
    log.info("stopped", extra={"pipeline": resource.pipeline, "batches": progress.batches, "rows": progress.rows})
    return progress


def in_spark(resource: BucketIngest, job: Job, work: Callable[[SparkSession, ProgressBoard], T]) -> T:
    """Do some work in a Spark of the resource's, and end what was started. Raises MissingDependency, JvmFailed, and
    what the work does.
    """
    try:
        from py4j.protocol import Py4JError, Py4JJavaError

        from bucketingest.stream.errors import JvmFailed, QueryFailed
        from bucketingest.stream.spark.failures import essence, got_no_answer
        from bucketingest.stream.spark.jvm import has_jvm, jvm_end, kill_jvm, stop_jvm
        from bucketingest.stream.spark.session import build_session, jvm_ahead, take_early_jvm
    except ImportError as error:
        raise MissingDependency(
            f"the Python package {error.name} is missing; install the job's: pip install 'bucketingest[spark,cli]'"
        ) from error
    job.kill = kill_jvm
    early = take_early_jvm()
    if early is None:
        check_java()
    # One that a caller in this process started is the caller's to end.
    ends_with_us = early is not None or not has_jvm()
    jvm = early or jvm_ahead(resource)
    with ExitStack() as stack:
        try:
            # While the JVM starts: what is refused without it, and a second of imports, most of the job.
            board = stack.enter_context(job.shown(resource))
            _refuse_early(resource)
            from bucketingest.stream.micro_batch import warm_up

            with job.signals.put_off():
                jvm.result()
                log.info("Spark's JVM runs", extra={"pipeline": resource.pipeline})
                session = build_session(resource)
                job.signals.install()
            log.info("Spark has started", extra={"pipeline": resource.pipeline})
            warm_up(session)
            result = work(session, board)
            job.succeeded()
        except Exception as error:  # the first caller sees that the JVM is gone
            if not isinstance(error, JvmFailed | Py4JError | ConnectionError) and not got_no_answer(error):
                raise
            if early is not None:
                check_java()
            if how := jvm_end():
                raise JvmFailed(
                    f"Spark's JVM is gone ({how}; spark.driver.memory); the next start finishes or rolls back what "
                    "was started"
                ) from error
            if isinstance(error, Py4JJavaError):  # its text is in the JVM, which ends below
                message, cause = essence(error)
                raise QueryFailed(f"Spark did not start: {message}", cause, str(error)) from error
            raise
        finally:
            wait([jvm])
            if ends_with_us:
                _stop_session()
                stop_jvm()
    return result


def _started(session: SparkSession, resource: BucketIngest, options: RunOptions, board: ProgressBoard) -> Running:
    from bucketingest.stream import ingest_resource, ingest_tables
    from bucketingest.stream.report.tables_board import TablesBoard

    once, ended = options.once, options.ended_drivers
    if isinstance(board, TablesBoard):
        return ingest_tables(session, resource, once=once, board=board, ended_hosts=ended)
    jobs = options.service_jobs
    return ingest_resource(session, resource, once=once, board=board, service_jobs=jobs, ended_hosts=ended)


def _refuse_early(resource: BucketIngest) -> None:
    """Refuse what needs no Spark before it is started: what the text says, and a table that the pipeline may not write;
    opening it checks again.
    """
    from bucketingest.hudi.errors import TableNotFound
    from bucketingest.hudi.table.checks import check_table
    from bucketingest.hudi.table.table import load_table
    from bucketingest.storage import open_storage
    from bucketingest.stream import Pipeline
    from bucketingest.stream.source.key_columns import with_key_of_table

    if problems := offline_problems(resource):
        raise SpecError(problems)
    if resource.spec.tables is not None:  # each is refused by itself
        return
    resource = with_key_of_table(resource)
    pipeline = Pipeline.of(resource)
    try:
        table = load_table(open_storage(pipeline.table_url, pipeline.storage_options))
    except TableNotFound:
        return
    check_table(table, pipeline.definition, metadata_table=pipeline.drops_metadata_table)


def _stop_session() -> None:
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    except Exception as error:  # noqa: BLE001 - the JVM may be gone; another error says what ended it
        log.debug("the session could not be stopped", extra={"reason": str(error)})


def _watch(resource: BucketIngest, running: Running, job: Job, stop_when: StopWhen | None) -> Progress:
    from bucketingest.stream.spark.jvm import jvm_pid

    stopping = False
    secret = SecretWatch(resource.spec)
    job.signals.watched = True
    with _display(resource) as show:
        while not running.wait(_REFRESH_SECONDS):
            job.beat()
            progress = running.progress()
            show(progress, "finishing the micro-batch; Ctrl-C again ends at once" if stopping else "")
            if not stopping and secret.changed():
                log.info("stopping: a Secret or ConfigMap of the pipeline has changed; the next start reads it")
                signal.raise_signal(signal.SIGTERM)
            first = job.signals.first
            if not stopping and (first is not None or (stop_when is not None and stop_when(progress))):
                stopping = True
                running.request_stop()
                if first is not None:
                    log.info(
                        "stopping after the micro-batch that is being written; a second signal ends at once",
                        extra={"signal": first.name, "grace_seconds": job.options.grace.total_seconds()},
                    )
            if os.getpid() == 1:
                reap_orphans([pid for pid in (jvm_pid(), running.service_pid) if pid is not None])
        progress = running.progress()
        show(progress, "stopped")
    return progress


@contextmanager
def _display(resource: BucketIngest) -> Iterator[Callable[[Progress, str], None]]:
    """A function that shows progress, with a note: in a terminal a panel, elsewhere nothing but the log."""
    from bucketingest.cli.panel import Latencies, panel
    from bucketingest.stream import foreach_batch

    latencies = Latencies()
    console = Console(stderr=True)
    title = f"{resource.pipeline} → {resource.spec.table.path}"
    live = Live(console=console, auto_refresh=False) if sys.stderr.isatty() else None

    def show(progress: Progress, note: str) -> None:
        if live is not None:
            latencies.observe(progress)
            live.update(panel(title, progress, latencies, note), refresh=True)

    with ExitStack() as stack:
        if live is not None:
            stack.enter_context(without_routine(foreach_batch.log))
            stack.enter_context(live)
        yield show


def reap_orphans(own: Collection[int]) -> list[int]:
    """Fetch every ended child but our `own`, whose status other code waits for; returns their process ids.

    In a container Python is process 1: what Spark's JVM started becomes our child when the JVM, or the process between,
    ends first, and would stay as a zombie.
    """
    reaped: list[int] = []
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return reaped
        if ended is None or ended.si_pid in own:
            return reaped
        os.waitpid(ended.si_pid, os.WNOHANG)
        reaped.append(ended.si_pid)
