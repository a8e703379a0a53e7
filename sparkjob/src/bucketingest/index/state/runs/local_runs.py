"""The runs on this machine's disk: each process maps the same files, and a run is fetched once for all of them."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from bucketingest.index.errors import StateError
from bucketingest.index.state.runs.run_file import Run

log = logging.getLogger(__name__)

_LEFT_OVER_SECONDS: Final = 3600.0
_SPARE_BYTES: Final = 4 * 1024**3
"""Of runs that the plan does not name: as many bytes as it names stay, or this. Another plan may need them again."""


def local_folder(table_id: bytes) -> pathlib.Path:
    """Where this machine's processes of one user keep a table's runs."""
    return pathlib.Path(tempfile.gettempdir()) / f"bucketingest-{os.getuid()}" / "state" / table_id.hex()


@dataclass(slots=True)
class LocalRuns:
    """Runs of one table in one folder, up to `bytes_max`; names are content, so nothing here can be out of date."""

    folder: pathlib.Path
    table_id: bytes
    bytes_max: int
    """When more is on disk, runs that were not opened for the longest time are deleted; never one of `keep`."""
    _open: dict[str, Run] = field(default_factory=dict)

    def get(self, digest: str, fetch: Callable[[str, pathlib.Path], None]) -> Run:
        """The run, mapped and checked. `fetch` copies it into a local file, if it is not here or damaged.
        A run that this process made is in the folder already.

        Raises what `fetch` and `Run.open` raise; a StateError then means that the fetched one is damaged.
        """
        if digest in self._open:
            return self._open[digest]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / digest
        with self._lock(digest):
            run = self._opened(path, digest) if path.exists() else None
            if run is None:
                with self._scratch() as scratch:
                    fetch(digest, scratch)
                    run = Run.open(scratch, self.table_id, digest=digest)
                    scratch.replace(path)
            os.utime(path)
        self._open[digest] = run
        return run

    def keep_only(self, keep: frozenset[str]) -> list[str]:
        """Unmap all runs but these, and delete the others from disk as far as `bytes_max` asks for; their digests."""
        self._open = {digest: run for digest, run in self._open.items() if digest in keep}
        files = []
        for path in self.folder.glob("[0-9a-f]" * 64):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                files.append((path.name in keep, status.st_mtime_ns, status.st_size, path))
        self._remove_left_overs()
        total, gone = sum(size for _, _, size, _ in files), []
        named = sum(size for kept, _, size, _ in files if kept)
        most = min(self.bytes_max, named + max(named, _SPARE_BYTES))
        for kept, _, size, path in sorted(files):
            if total <= most or kept:
                break
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
            gone.append(path.name)
            total -= size
        return gone

    def _remove_left_overs(self) -> None:
        """Unfinished files of processes that died."""
        for path in [*self.folder.glob(".fetch-*"), *self.folder.glob(".run-*")]:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _LEFT_OVER_SECONDS:  # noqa: TID251 - files of this machine
                    path.unlink()

    def _opened(self, path: pathlib.Path, digest: str) -> Run | None:
        try:
            return Run.open(path, self.table_id, digest=digest)
        except StateError as error:  # a changed bit can also look like another version or table
            log.warning("run damaged on local disk, fetched again", extra={"digest": digest, "reason": str(error)})
            path.unlink()
            return None

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[pathlib.Path]:
        descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".fetch-")
        os.close(descriptor)
        try:
            yield pathlib.Path(name)
        finally:
            pathlib.Path(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _lock(self, digest: str) -> Iterator[None]:
        """One process of this machine at a time; the kernel takes the lock off a process that dies."""
        with (self.folder / f"{digest}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
