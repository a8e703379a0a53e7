"""What the outside sees of a run: endpoints while it runs, a termination message and an exit code at its end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.cli.options import RunOptions
from bucketingest.cli.process.signals import StopSignals
from bucketingest.cli.process.termination_message import Termination, termination_path
from bucketingest.exit_codes import ExitCode
from bucketingest.redaction import all_secret, keep_secret, redacted, secrets_in
from bucketingest.registry.credentials import registry_credentials
from bucketingest.spec.fields.source_secret import secret_options
from bucketingest.spec.model import BucketIngest

if TYPE_CHECKING:
    from bucketingest.stream.report.board import ProgressBoard
    from bucketingest.stream.report.endpoints import Answer
    from bucketingest.stream.report.progress import Progress

log = logging.getLogger(__name__)

_EXIT_BASE: Final = 128


class Job:
    """One run of one pipeline in this process."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.board: ProgressBoard | None = None
        self.kill: Callable[[], None] = lambda: None
        """Kills what this process started."""
        self.signals = StopSignals(self._end_immediately, self._first_signal)
        self._termination = Termination(termination_path(options.termination_log), redacted, self._progress)
        self._deadline = StopDeadline(options.grace, self._give_up)
        self._succeeded = False
        self._beat: float | None = None

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Handle stop signals, and write the termination message however the block ends. Raises what it raises, and
        StoppedEarly if a signal interrupted it.
        """
        with self.signals.installed():
            try:
                yield
            except BaseException as error:
                if self.signals.interrupted:
                    log.info("stopped before anything was started", extra={"interrupted": type(error).__name__})
                    self._termination.write(ExitCode.OK, "stopped before anything was started", word="Stopped")
                    raise
                self._show_end(failed=True)
                code = exit_code(error)
                self._termination.write(code, str(error) or type(error).__name__)
                raise
            else:
                self._show_end(failed=False)
                self._report_success()
            finally:
                self._deadline.cancel()

    def concerns(self, resource: BucketIngest) -> None:
        """The resource is known. Raises SpecError if one of its Secrets cannot be used."""
        self._termination.pipeline = resource.pipeline
        keep_secrets_of(resource)

    @contextmanager
    def shown(self, resource: BucketIngest) -> Iterator[ProgressBoard]:
        """A board for the run, and the endpoints that show it, if they are wanted. Raises AddressUnusable."""
        from bucketingest.stream.report.board import ProgressBoard
        from bucketingest.stream.report.endpoints import Endpoints
        from bucketingest.stream.report.metrics import JobMetrics
        from bucketingest.stream.report.tables_board import TablesBoard
        from bucketingest.stream.report.targets import Targets

        kind = ProgressBoard if resource.spec.tables is None else TablesBoard
        listen = self.options.listen
        if listen is None:
            self.board = kind()
            yield self.board
            return
        metadata = resource.metadata
        metrics = JobMetrics(
            namespace=metadata.namespace or "",
            name=metadata.name,
            pipeline=resource.pipeline,
            version=_version(),
            targets=Targets.of(resource),
        )
        self.board = board = kind([metrics])
        metrics.watch(board.snapshot, board.offsets, board.tables if isinstance(board, TablesBoard) else tuple)
        with Endpoints(listen.host, listen.port, self._routes(resource, self.board, metrics.exposition)) as endpoints:
            log.info("endpoints", extra={"address": f"{listen.host}:{endpoints.port}"})
            yield self.board

    def beat(self) -> None:
        """The query has just answered."""
        self._beat = time.monotonic()

    def succeeded(self) -> None:
        """Everything is committed; only processes are left to end."""
        self._succeeded = True

    # -- endpoints ------------------------------------------------------------------------------------------------

    def _routes(
        self, resource: BucketIngest, board: ProgressBoard, exposition: Callable[[], bytes]
    ) -> dict[str, Callable[[], Answer]]:
        from bucketingest.stream.report.endpoints import Answer
        from bucketingest.stream.report.job_report import progress_report
        from bucketingest.stream.report.metrics import CONTENT_TYPE
        from bucketingest.stream.report.progress import Phase, is_alive

        ready = (Phase.RUNNING, Phase.COMMITTING, Phase.IDLE)

        def health() -> Answer:
            silent = 0.0 if self._beat is None else time.monotonic() - self._beat
            now = board.snapshot()
            alive = is_alive(now, silent)
            document = {"alive": alive, "phase": now.phase.value, "silentSeconds": round(silent, 3)}
            return Answer.of(document, HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE)

        def readiness() -> Answer:
            now = board.snapshot()
            problem = None if now.source is None else now.source.problem
            is_ready = now.phase in ready and problem is None
            document = {"ready": is_ready, "phase": now.phase.value} | ({} if problem is None else {"problem": problem})
            return Answer.of(document, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

        def progress() -> Answer:
            return Answer.of(progress_report(resource, board.snapshot()).model_dump(mode="json", by_alias=True))

        def metrics() -> Answer:
            return Answer(exposition(), CONTENT_TYPE)

        return {"/healthz": health, "/readyz": readiness, "/progress": progress, "/metrics": metrics}

    # -- the end --------------------------------------------------------------------------------------------------

    def _progress(self) -> Progress | None:
        return None if self.board is None else self.board.snapshot()

    def _show_end(self, *, failed: bool) -> None:
        if self.board is not None:
            from bucketingest.stream.report.progress import Phase

            self.board.ended(Phase.FAILED if failed else Phase.STOPPED)

    def _report_success(self) -> None:
        received = self.signals.first
        if received is None:
            self._termination.write(ExitCode.OK, "completed: all input is committed", word="Completed")
        else:
            self._termination.write(
                ExitCode.OK, f"stopped by {received.name}; what was written is committed", word="Stopped"
            )

    def _first_signal(self) -> None:
        self._deadline.start()
        if self.board is not None:
            self.board.stopping()

    def _end_immediately(self, number: signal.Signals) -> None:
        self.kill()
        code = ExitCode(_EXIT_BASE + number)
        self._termination.write(
            code, f"killed by a second {number.name}; the next start finishes or rolls back what was started"
        )

    def _give_up(self) -> None:
        """The stop took too long. The next start resumes what is written and not decided, and finishes the rest."""
        self.kill()
        if self._succeeded:
            self._report_success()
            self._exit(ExitCode.OK, "Spark did not end in time and was killed; everything is committed")
        said = (
            f"did not stop within {self.options.grace.total_seconds():g} s (--grace): the next start resumes what was "
            "started, nothing is lost or doubled"
        )
        self._termination.write(ExitCode.STOP_DEADLINE, said)
        self._exit(ExitCode.STOP_DEADLINE, said)

    def _exit(self, code: ExitCode, said: str) -> None:
        log.warning(said)
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def keep_secrets_of(resource: BucketIngest) -> None:
    """From now on hide what the resource's options and Secrets hold. Raises SpecError if a Secret cannot be used."""
    kafka = resource.spec.source.kafka
    if kafka is not None:
        keep_secret(secrets_in({name: str(value) for name, value in kafka.options.items()}))
        keep_secret(all_secret(secret_options(kafka)))
    tables = resource.spec.tables
    formats = [resource.spec.format, *(each.format for each in (() if tables is None else tables.overrides))]
    for each in formats:
        if each is not None and each.registry is not None:
            keep_secret(registry_credentials(each.registry).secrets)


def _version() -> str:
    try:
        return version("bucketingest")
    except PackageNotFoundError:
        return ""


class StopDeadline:
    """Runs `give_up` in a thread of its own when the time is up, whatever the main thread waits for."""

    def __init__(self, grace: timedelta, give_up: Callable[[], None]) -> None:
        """`give_up` must end the process."""
        self._timer = threading.Timer(grace.total_seconds(), give_up)
        self._timer.name = "stop-deadline"
        self._timer.daemon = True
        self._running = False

    def start(self) -> None:
        """Start the time. Safe in a signal handler."""
        if not self._running:
            self._running = True
            self._timer.start()

    def cancel(self) -> None:
        """The process ends in time."""
        self._timer.cancel()
