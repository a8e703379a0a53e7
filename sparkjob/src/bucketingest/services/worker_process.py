"""Starts processes of table services, and collects what they say."""

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
from bucketingest.services.worker import Propose, Request, Tidy

log = logging.getLogger(__name__)

_STOP_WITHIN: Final = timedelta(seconds=5)


class WorkerProcess:
    """One request, carried out in a process beside the job."""

    def __init__(
        self, request: Request, process: subprocess.Popen[bytes] | None = None, *, stays: bool = False
    ) -> None:
        """`process`: one that has answered and stays; None: a new one. Raises WorkerDied if it cannot be started."""
        self.operation: int | None = None
        """Place of the operation that it has started last."""
        self._answer: bytes | None = None
        self.stays = stays
        """Whether it waits for another request when it has answered."""
        try:
            self.process = process or _started()
            assert self.process.stdin is not None
            self.process.stdin.write(pickle.dumps((request, stays)))
            self.process.stdin.flush()  # left open: its end is that of this process
        except OSError as error:
            raise WorkerDied(f"the process of table services cannot be started: {error}") from error
        self._reader = threading.Thread(target=self._read, name="table-services", daemon=True)  # noqa: TID251 - reads from a process beside the driver
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def has_ended(self) -> bool:
        """Whether the answer is there, or will never be."""
        has_said_all = self.process.poll() is not None or (self.stays and self._answer is not None)
        return has_said_all and not self._reader.is_alive()

    def answer(self) -> object:
        """What the request's `run` returned. Raises what it raised, and WorkerDied if the process was killed."""
        if self._answer is None:
            code = self.process.poll()
            how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
            raise WorkerDied(f"the process of table services ended {how} (out of memory?)")
        answer = pickle.loads(self._answer)  # noqa: S301 - from the process that this one started
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """End it; what it has made is adopted by the next one."""
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):  # it waits for a disk; the job's end must not wait for it
            self.process.wait(_STOP_WITHIN.total_seconds())
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "log" in message:
                level, name, text, extra = message["log"]
                logging.getLogger(name).log(level, text, extra=extra)
            elif "answer" in message:
                self._answer = base64.b64decode(message["answer"])
                if self.stays:
                    return
            else:
                self.operation = message["operation"]
        self.process.stdout.close()  # so has the other side: it ends, or is ending


class KeptProcess:
    """Carries out one request after the other, of any table, in one process: to start one takes longer than to look at
    a small table. After a merge it ends, and with it what the merge had of memory. Used by one thread at a time.
    """

    def __init__(self) -> None:
        self._last: WorkerProcess | None = None

    def start(self, request: Request) -> WorkerProcess:
        """As `WorkerProcess`. One request is out at a time."""
        last, stays = self._last, isinstance(request, Propose | Tidy)
        if last is not None and not last.has_ended():
            last.stop()  # nobody waits for its answer, which is not that of this request
            last = None
        waits = last is not None and last.stays and last.process.poll() is None
        try:
            self._last = WorkerProcess(request, last.process if last is not None and waits else None, stays=stays)
        except WorkerDied:
            if not waits:
                raise
            self._last = WorkerProcess(request, stays=stays)  # it has died just now
        return self._last

    def stop(self) -> None:
        """End it."""
        last, self._last = self._last, None
        if last is not None:
            last.stop()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "bucketingest.services.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C in a terminal is for the job, which ends this process when it is done with it
    )
