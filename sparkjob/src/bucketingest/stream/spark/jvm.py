"""Spark's JVM as a child process: in its own session, with its output as log records. It ends when this process ends.

PySpark's own launch leaves the JVM in the terminal's process group, where a SIGTERM to the group kills it in the middle
of a micro-batch, and lets it write to the terminal.
"""
# ruff: noqa: SLF001 - PySpark offers no other way to hand over a gateway

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from bucketingest.stream.errors import JvmFailed
from bucketingest.stream.spark.launch import ARCHIVE_VARIABLE, Launched, jvm_settings, launch

log = logging.getLogger("bucketingest.spark")

_EXIT_SECONDS: Final = 10.0
_END_SECONDS: Final = 2.0
_KEPT_LINES: Final = 5

# They log, with the whole stack, the error that ends the query: it is raised in Python too.
_ALSO_RAISED: Final = ("MicroBatchExecution", "TaskSetManager", "Executor", "PythonRunner", "Utils")
# The JVM announces a module that Spark asks for.
_NOISE: Final = ("WARNING: Using incubator modules",)


def start_jvm(conf: Mapping[str, str], launched: Launched | None = None) -> None:
    """Start the JVM that the next Spark session will use, unless there is one. Raises JvmFailed.

    `conf`: Spark's settings; those that a JVM must have from its start (memory, jars) count here only. `launched`: its
    process, if it runs already.
    """
    if SparkContext._gateway is not None:
        return
    launched = launched or launch(conf)
    gateway = _through_spark(conf) if launched is None else _connected(launched)
    SparkContext._ensure_initialized(gateway=gateway)
    # When the JVM is gone, PySpark's server for accumulators prints a traceback, which says nothing new.
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _quiet  # type: ignore[method-assign, assignment]


def _through_spark(conf: Mapping[str, str]) -> Any:
    """The gateway to a JVM that Spark's launcher started."""
    spark_conf = SparkConf(loadDefaults=False).setAll(
        list(jvm_settings(conf, os.environ.get(ARCHIVE_VARIABLE, "")).items())
    )
    reading, writing = os.pipe()
    output = _Output(reading)
    try:
        kwargs = {"start_new_session": True, "stdout": writing, "stderr": writing}
        return launch_gateway(spark_conf, kwargs)  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError) as error:
        os.close(writing)
        writing = -1
        raise _failed(output, error) from error
    finally:
        if writing >= 0:
            os.close(writing)


def _connected(launched: Launched) -> Any:
    """The gateway to a JVM that was started without Spark's launcher."""
    output = _Output(launched.output)
    try:
        port, secret = launched.address()
    except (OSError, TimeoutError) as error:
        raise _failed(output, error) from error
    gateway = _gateway_of(port, secret)
    gateway.proc = launched.process
    return gateway


def _gateway_of(port: int, secret: str) -> Any:
    """PySpark reads from the environment which JVM runs already. Processes that start later must not see it."""
    found = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(found)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in found:
            del os.environ[name]


def _failed(output: _Output, error: Exception) -> JvmFailed:
    output.join(1.0)
    said = " | ".join(output.last_lines) or str(error)
    return JvmFailed(f"Spark's JVM did not start: {said}; check spark.driver.memory and spark.conf")


def _quiet(server: Any, request: Any, client_address: Any) -> None:  # noqa: ARG001 - of socketserver
    log.debug("an accumulator's connection broke off", extra={"reason": str(sys.exception())})


def has_jvm() -> bool:
    """Whether this process has a JVM, started here or not."""
    return SparkContext._gateway is not None


def stop_jvm() -> None:
    """End the JVM that `start_jvm` started and all of its session; the Spark session must have been stopped."""
    process = _process()
    if process is None:
        return
    with suppress(Exception):  # whatever state the connection is in, the process ends below
        SparkContext._gateway.shutdown()  # type: ignore[union-attr]
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the JVM exits when this pipe breaks
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_SECONDS)
    kill_jvm()
    SparkContext._gateway = None
    SparkContext._jvm = None


def kill_jvm() -> None:
    """End the JVM immediately, as a crash would. Safe in a signal handler."""
    process = _process()
    if process is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def jvm_pid() -> int:
    """Process id of the JVM that `start_jvm` started; -1 if there is none."""
    process = _process()
    return -1 if process is None else process.pid


def jvm_end() -> str:
    """How the JVM ended, in words; "" if there is none, or it still runs."""
    process = _process()
    if process is None:
        return ""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    return describe_end(process.returncode)


def describe_end(code: int | None) -> str:
    """What the exit status of Spark's JVM says, negative for a signal as subprocess has it. Pure."""
    match code:
        case None:
            return ""
        case 3 | 52:  # -XX:+ExitOnOutOfMemoryError; Spark's own handler
            return f"exit code {code}: java.lang.OutOfMemoryError"
        case -9 | 137:
            return "killed with SIGKILL, as the kernel does when memory runs out"
        case _ if code < 0:
            return f"ended by signal {-code}"
        case _:
            return f"exit code {code}"


def _process() -> subprocess.Popen[bytes] | None:
    """The JVM's process; None if there is none, or `start_jvm` did not start it."""
    process = getattr(SparkContext._gateway, "proc", None)
    is_own = process is not None and os.getpgid(0) != process.pid
    return process if is_own else None


class _Output(threading.Thread):
    """Reads what the JVM and its children print, and logs it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._descriptor = descriptor
        self._repeats = Repeats()
        self.last_lines: list[str] = []
        self.start()

    def run(self) -> None:
        """Until the last process that holds the pipe has ended."""
        with os.fdopen(self._descriptor, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if text := line.rstrip():
                    _log_line(text, self._repeats)
                    self.last_lines = [*self.last_lines, text][-_KEPT_LINES:]


def _log_line(line: str, repeats: Repeats) -> None:
    level, message, extra = parse_line(line)
    if extra:  # other text is a report of its own: a crash of the JVM has many lines
        times = repeats.times(message, *extra.values())
        if not times:
            return
        extra |= {"times": times} if times > 1 else {}
    log.log(level, "%s", message, extra=extra)


def parse_line(line: str) -> tuple[int, str, dict[str, Any]]:
    """Level, message and fields of a line that the JVM printed: a JSON object of its logger, or any text. Pure."""
    try:
        record = json.loads(line)
        logger, level, message = record["logger"], record["level"], record["message"]
    except (ValueError, KeyError, TypeError):
        return (logging.DEBUG if line.startswith(_NOISE) else logging.WARNING), line, {}
    extra = {"spark_logger": logger}
    if record.get("exception"):
        extra["reason"] = str(record["exception"]).strip().partition("\n")[0]
    known = logger.rpartition(".")[2] in _ALSO_RAISED
    return (logging.DEBUG if known else getattr(logging, level, logging.ERROR)), str(message), extra


AGAIN_SECONDS: Final = 300.0
"""After so long it is said again, with the number of times."""
_KEPT_MAX: Final = 100
_NUMBERS: Final = re.compile(r"[0-9]+")


class Repeats:
    """Counts lines that differ by their numbers only. Of more than a hundred different ones the oldest are forgotten.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[Hashable, float] = {}
        self._unsaid: dict[Hashable, int] = {}

    def times(self, *words: str) -> int:
        """How often this has been said since it was last passed on, now included; 0: do not pass it on now."""
        key = tuple(_NUMBERS.sub("0", each) for each in words)
        before, now = self._said.get(key), self._clock()
        self._unsaid[key] = self._unsaid.get(key, 0) + 1
        if before is not None and now - before < AGAIN_SECONDS:
            return 0
        self._said.pop(key, None)
        self._said[key] = now
        if len(self._said) > _KEPT_MAX:
            oldest = next(iter(self._said))
            del self._said[oldest]
            self._unsaid.pop(oldest, None)
        return self._unsaid.pop(key)
