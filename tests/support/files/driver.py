"""A process that runs resources of files beside each other in one Spark session: it can be killed, and another one goes
on from what is on disk.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import RunningIngest, ingest_resource
from bucketingest.stream.spark.session import build_session

TESTS: Final = Path(__file__).parents[2]
_ANSWERS_WITHIN: Final = 240.0
_LOOK_SECONDS: Final = 0.05


class Driver:
    """Its other end. A process is started when resources are to be run and none is there."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, resources: Sequence[BucketIngest], *, kill: str = "", when: Callable[[], bool] = lambda: False
    ) -> list[str]:
        """Take all there is, beside each other. `kill`: what SIGKILL is sent to `when` it is so: "driver" or "worker".

        Returns for each "" if all was taken, "killed" if the driver was before that, or the class of the error.
        """
        process = self._process = self._process if self._is_there() else self._start()
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        records = [each.model_dump(by_alias=True, exclude_unset=True, mode="json") for each in resources]
        process.stdin.write(json.dumps(records) + "\n")
        process.stdin.flush()
        process.stdout.readline()  # it has begun
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(kill, when, ended))
        watcher.start()
        said = ["killed"] * len(resources)
        try:
            for line in islice(process.stdout, len(resources)):
                number, answer = json.loads(line)
                said[number] = answer
        finally:
            ended.set()
            watcher.join()
        return said

    def _watch(self, kill: str, when: Callable[[], bool], ended: threading.Event) -> None:
        deadline = time.monotonic() + _ANSWERS_WITHIN
        while not ended.wait(_LOOK_SECONDS):
            if time.monotonic() > deadline:
                self.close()
            elif kill and when():
                self._kill(kill)
                kill = ""

    def close(self) -> None:
        """End it with all it started."""
        if self._is_there():
            self._kill("driver")

    def _is_there(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "support.files.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("a"),
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS), "MASTER": "local[2]"},
            start_new_session=True,
        )

    def _kill(self, what: str) -> None:
        process = self._process
        assert process is not None
        if what == "driver":
            os.killpg(process.pid, signal.SIGKILL)  # its JVM ends when it sees that
            process.wait()
            return
        for pid in _workers_below(process.pid):
            os.kill(pid, signal.SIGKILL)


def _workers_below(root: int) -> list[int]:
    """Spark's Python workers: processes that its daemon has forked."""
    parents: dict[int, tuple[int, bool]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
            parents[int(each.name)] = (
                int(fields[1]),
                b"bucketingest.stream.spark.worker_daemon" in (each / "cmdline").read_bytes(),
            )
        except OSError:  # it has ended
            continue

    def is_below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid][0]
        return pid == root

    of_daemon = [pid for pid, (parent, is_one) in parents.items() if is_one and parents.get(parent, (0, False))[1]]
    return [pid for pid in of_daemon if is_below(pid)]


def _serve() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    lock = threading.Lock()
    session = None

    def wait(number: int, running: RunningIngest | Exception) -> None:
        answer = ""
        try:
            if isinstance(running, Exception):
                raise running
            running.wait()
        except Exception as error:  # noqa: BLE001 - the other end judges it
            answer = type(error).__name__
            traceback.print_exception(error, file=sys.stderr)
        with lock:
            print(json.dumps([number, answer]), file=answers, flush=True)

    for line in sys.stdin:
        resources = [BucketIngest.from_document(record) for record in json.loads(line)]
        session = session or build_session(resources[0])
        print("begun", file=answers, flush=True)
        waiting = []
        for number, resource in enumerate(resources):
            waiting.append(threading.Thread(target=wait, args=(number, _started(session, resource))))
            waiting[-1].start()
        for thread in waiting:
            thread.join()


def _started(session: SparkSession, resource: BucketIngest) -> RunningIngest | Exception:
    try:
        return ingest_resource(session, resource, once=True)
    except Exception as error:  # noqa: BLE001 - as that of a query that runs
        return error


if __name__ == "__main__":
    _serve()
