"""A small disk of a table's own, which a drill fills or makes read-only. Needs root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BYTES: Final = 16 * 1024 * 1024
_PIECE: Final = 4096


def why_not() -> str | None:
    """Why this process cannot mount a disk; None if it can."""
    return None if os.geteuid() == 0 and shutil.which("mount") else "mounting a disk needs Linux and root"


class SmallDisk:
    """A file system in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._other = folder / "of-somebody-else"

    def fill(self) -> None:
        """Somebody's file takes all the room that is left."""
        with self._other.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_PIECE))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self) -> None:
        """That file is deleted."""
        self._other.unlink()

    def is_read_only(self, yes: bool) -> None:
        """Mount it again, with or without the right to write. Refused while a file is open for writing."""
        words = ["mount", "-o", f"remount,{'ro' if yes else 'rw'}", str(self.folder)]
        for last in [False] * 50 + [True]:
            done = subprocess.run(words, check=last, capture_output=True, timeout=10)
            if done.returncode == 0:
                return


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """One that is mounted on a new folder, as long as the context lasts."""
    folder.mkdir()
    size = f"size={_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "bucketingest-drill", str(folder)], check=True, timeout=10)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=10)
