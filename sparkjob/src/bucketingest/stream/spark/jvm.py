"""Spark's JVM as a child process: in its own session, with its output as log records. It ends when this process ends.

PySpark's own launch leaves the JVM in the terminal's process group, where a SIGTERM to the group kills it in the middle
of a micro-batch, and lets it write to the terminal.
"""
# ruff: noqa: SLF001 - PySpark offers no other way to hand over a gateway

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from bucketingest.stream.errors import JvmFailed

log = logging.getLogger("bucketingest.spark")

ARCHIVE_VARIABLE: Final = "BUCKETINGEST_CLASS_ARCHIVE"
"""Environment variable: a class archive, which the image has. Its class path is in a file beside it, FILE.classpath."""
_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_LOG_CONFIGURATION: Final = "log4j2.configurationFile"
_EXIT_SECONDS: Final = 10.0
_END_SECONDS: Final = 2.0
_KEPT_LINES: Final = 5

# They log, with the whole stack, the error that ends the query: it is raised in Python too.
_ALSO_RAISED: Final = ("MicroBatchExecution", "TaskSetManager", "Executor", "PythonRunner", "Utils")
# The JVM announces a module that Spark asks for.
_NOISE: Final = ("WARNING: Using incubator modules",)


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM that the next Spark session will use, unless there is one. Raises JvmFailed.

    `conf`: Spark's settings; those that a JVM must have from its start (memory, jars) count here only.
    """
    if SparkContext._gateway is not None:
        return
    settings = with_archive(conf, os.environ.get(ARCHIVE_VARIABLE, ""))
    settings[_OPTIONS] = with_log_configuration(settings.get(_OPTIONS, ""))
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    reading, writing = os.pipe()
    output = _Output(reading)
    try:
        kwargs = {"start_new_session": True, "stdout": writing, "stderr": writing}
        gateway = launch_gateway(spark_conf, kwargs)  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError) as error:
        os.close(writing)
        writing = -1
        output.join(1.0)
        said = " | ".join(output.last_lines) or str(error)
        raise JvmFailed(f"Spark's JVM did not start: {said}; check spark.driver.memory and spark.conf") from error
    finally:
        if writing >= 0:
            os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway)
    # When the JVM is gone, PySpark's server for accumulators prints a traceback, which says nothing new.
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _quiet  # type: ignore[method-assign, assignment]


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


def with_log_configuration(options: str) -> str:
    """Options of a JVM with our configuration of its logger, unless they have one: errors only, as JSON lines. Pure."""
    if "log4j" in options:  # the user's own
        return options
    location = Path(str(files("bucketingest.stream.spark") / "log4j2.properties")).as_uri()
    return f"{options} -D{_LOG_CONFIGURATION}={location}".strip()


def with_archive(conf: Mapping[str, str], archive: str) -> dict[str, str]:
    """The settings of a JVM that starts with the class archive, if it is there and no other class path comes before its
    own.
    """
    class_path = Path(f"{archive}.classpath")
    if not archive or _CLASS_PATH in conf or not class_path.exists():
        return dict(conf)
    # With jars of another version the JVM starts without, and need not say so.
    options = f"{conf.get(_OPTIONS, '')} -XX:SharedArchiveFile={archive} -Xlog:cds=off,cds+dynamic=off".strip()
    return {**conf, _CLASS_PATH: class_path.read_text(encoding="utf-8"), _OPTIONS: options}


class _Output(threading.Thread):
    """Reads what the JVM and its children print, and logs it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._descriptor = descriptor
        self.last_lines: list[str] = []
        self.start()

    def run(self) -> None:
        """Until the last process that holds the pipe has ended."""
        with os.fdopen(self._descriptor, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if text := line.rstrip():
                    _log_line(text)
                    self.last_lines = [*self.last_lines, text][-_KEPT_LINES:]


def _log_line(line: str) -> None:
    level, message, extra = parse_line(line)
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
