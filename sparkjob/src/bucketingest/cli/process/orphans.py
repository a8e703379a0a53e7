"""The duty of a container's first process: to fetch the exit status of processes that lost their parent."""

from __future__ import annotations

import os
from collections.abc import Collection


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
