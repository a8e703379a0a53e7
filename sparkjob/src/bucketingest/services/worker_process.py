"""Starts the process of table services, and collects what it says."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Final

from bucketingest.services.errors import WorkerDied
from bucketingest.services.worker import Request

log = logging.getLogger(__name__)

_STOP_WITHIN: Final = timedelta(seconds=5)


class WorkerProcess:
    """One request, carried out in a process of its own."""

    def __init__(self, request: Request) -> None:
        """Raises WorkerDied if the process cannot be started."""
        self.operation: int | None = None
        """Place of the operation that it has started last."""
        self._answer: bytes | None = None
        command = [sys.executable, "-m", "bucketingest.services.worker"]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,  # Ctrl-C in a terminal is for the job, which ends this process when it is done with it
            )
            assert self._process.stdin is not None
            self._process.stdin.write(pickle.dumps(request))
            self._process.stdin.flush()  # left open: its end is that of this process
        except OSError as error:
            raise WorkerDied(f"the process of table services cannot be started: {error}") from error
        self._reader = threading.Thread(target=self._read, name="table-services", daemon=True)  # noqa: TID251 - reads from a process beside the driver
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether the answer is there, or will never be."""
        return self._process.poll() is not None and not self._reader.is_alive()

    def answer(self) -> object:
        """What the request's `run` returned. Raises what it raised, and WorkerDied if the process was killed."""
        if self._answer is None:
            code = self._process.poll()
            how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            raise WorkerDied(f"the process of table services ended {how} (out of memory?)")
        answer = pickle.loads(self._answer)  # noqa: S301 - from the process that this one started
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """End it; what it has made is adopted by the next one."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # it waits for a disk; the job's end must not wait for it
            self._process.wait(_STOP_WITHIN.total_seconds())
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if "log" in message:
                    level, name, text, extra = message["log"]
                    logging.getLogger(name).log(level, text, extra=extra)
                elif "answer" in message:
                    self._answer = base64.b64decode(message["answer"])
                else:
                    self.operation = message["operation"]
        # It has closed its output: it ends, or is ending.
