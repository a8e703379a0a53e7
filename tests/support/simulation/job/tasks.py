"""Write tasks as the engine runs them: alone, twice at the same time, or long after their driver has ended."""

from __future__ import annotations

import logging
import pathlib
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import pyarrow as pa
import stamina

from bucketingest.index import placing
from bucketingest.index.assignment import planned_file_ids
from bucketingest.index.state import store
from bucketingest.services.compaction import commit as compaction_commit
from bucketingest.storage import Storage, StorageError
from bucketingest.write.covering import lazy_loading
from bucketingest.write.dead_letters import writer as dead_letter_writer
from bucketingest.write.errors import ConflictingAttempt, InstantAborted
from bucketingest.write.instant_look import InstantLook
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows import bucket_writer, emptied, shuffle
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow
from support.simulation.job import releases
from support.simulation.job.surroundings import Surroundings
from support.simulation.world import Actor, World

_ATTEMPTS_MAX = 10


class Inline:
    """Stands in for a pool that sends requests to the storage: each is sent immediately, by the actor itself."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def submit(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - its place is the future
            future.set_exception(error)
        return future

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(function, items)

    def shutdown(self, **_: object) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class Routes:
    """The view behind a URL: write tasks open their storage by URL, as on an executor."""

    def __init__(self) -> None:
        self.views: dict[str, Storage] = {}

    def add(self, url: str, view: Storage) -> None:
        self.views[url] = view

    def open(self, url: str, _: object = None) -> Storage:
        return self.views[url]


def _disk(folder: str, table_id: bytes) -> pathlib.Path:
    """Each process has a disk of its own: a file lock that a paused one holds would stop all others."""
    return pathlib.Path(folder) / threading.current_thread().name.replace("/", "-") / table_id.hex()


def _span_length(buckets: int, _: int) -> int:
    """Some processes put all buckets of a partition into one span; others have no spans, as older releases."""
    return buckets if zlib.crc32(threading.current_thread().name.encode()) % 2 else 1


@contextmanager
def installed(routes: Routes, world: World) -> Iterator[None]:
    """Let write tasks in this process use the simulation's stores and clocks and no threads of their own, and retries
    no time, for as long as this lasts. Nothing is logged meanwhile.
    """
    look = partial(InstantLook, now=world.now, forward=world.forward)
    logged = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            ExitStack() as stack,
            tempfile.TemporaryDirectory(prefix="simulation-") as folder,
            patch.object(planned_file_ids, "local_folder", lambda table_id: _disk(folder, table_id)),
            patch.object(store, "os", SimpleNamespace(urandom=lambda count: bytes(range(count)))),
            patch.object(lazy_loading, "EAGER_BYTES_MAX", 0),
            patch.object(lazy_loading, "RECENT_COMMITS", 1),
            patch.object(placing, "span_length", _span_length),
            patch.object(shuffle, "open_storage", routes.open),
            patch.object(bucket_writer, "open_storage", routes.open),
            patch.object(emptied, "open_storage", routes.open),
            patch.object(dead_letter_writer, "open_storage", routes.open),
            patch.object(bucket_writer, "ThreadPoolExecutor", Inline),
            patch.object(compaction_commit, "ThreadPoolExecutor", Inline),
            patch.object(bucket_writer, "InstantLook", look),
            stamina.set_testing(testing=True, attempts=_ATTEMPTS_MAX, cap=True),
        ):
            for module in releases.READ_IN:
                stack.enter_context(patch.object(module, releases.VERSION, 1))
            yield
    finally:
        logging.disable(logged)


class Twin:
    """A second run of a task, elsewhere: its driver may take its report, or never hear of it."""

    def __init__(self, around: Surroundings, share: pa.Table, plan: WritePlan, task: int) -> None:
        self.statuses: list[WriteStatus] = []
        self._around = around
        self._share, self._plan, self._task = share, plan, task

    def live(self, _: Actor) -> None:
        try:
            self.statuses = run_task(self._share, self._plan, self._task)
        except (StorageError, InstantAborted):
            return
        except ConflictingAttempt as error:
            self._around.check_conflict(error, self._plan.instant_time, self._plan.sequence)


def run_task(share: pa.Table, plan: WritePlan, task: int) -> list[WriteStatus]:
    """A write task as the engine runs it."""
    return statuses_from_arrow(pa.Table.from_batches(list(write_task(share.to_batches(), plan, task))))
