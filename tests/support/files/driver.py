"""A process that runs resources of files, one after the other in one Spark session: it can be killed, and another one
goes on from what is on disk.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Final

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingest_resource
from bucketingest.stream.spark.session import build_session

TESTS: Final = Path(__file__).parents[2]
_ANSWERS_WITHIN: Final = 240.0


class Driver:
    """Its other end. A process is started when a resource is to be run and none is there."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.starts = 0

    def run(self, resource: BucketIngest, *, kill: str = "", after: float = 0.0) -> str:
        """Take all there is. `kill`: of what SIGKILL is sent `after` seconds: "driver" or "worker".

        Returns "" if all was taken, "killed" if the driver was, or the class of the error.
        """
        process = self._process = self._process if self._is_there() else self._start()
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(resource.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
        process.stdin.flush()
        timer = threading.Timer(after, self._kill, [kill]) if kill else threading.Timer(_ANSWERS_WITHIN, self.close)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
            timer.join()
        return str(json.loads(line)) if line else "killed"

    def close(self) -> None:
        """End it with all it started."""
        if self._is_there():
            self._kill("driver")

    def _is_there(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> subprocess.Popen[str]:
        self.starts += 1
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
            os.killpg(process.pid, signal.SIGKILL)  # with its JVM
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
            parents[int(each.name)] = int(fields[1]), b"pyspark.daemon" in (each / "cmdline").read_bytes()
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
    session = None
    for line in sys.stdin:
        resource = BucketIngest.model_validate_json(line)
        session = session or build_session(resource)
        answer = ""
        try:
            running = ingest_resource(session, resource, once=True)
            running.wait()
        except Exception as error:  # noqa: BLE001 - the other end judges it
            answer = type(error).__name__
            traceback.print_exception(error, file=sys.stderr)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
