"""What the processes of a race run: in a module that a new process can import, as a test's own module cannot be."""

from __future__ import annotations

import multiprocessing.synchronize
from multiprocessing import Queue

from bucketingest.storage import AlreadyExists, open_storage


def create_in_process(root: str, number: int, barrier: multiprocessing.synchronize.Barrier, wins: Queue[int]) -> None:
    """Create one object at the same moment as the others; whoever succeeds puts its number into `wins`."""
    storage = open_storage(root)
    barrier.wait()
    try:
        storage.create("race/object", f"process {number}".encode())
    except AlreadyExists:
        return
    wins.put(number)
