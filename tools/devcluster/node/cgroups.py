"""The cgroup below which all pods of an instance are, in version 1 and 2 of the kernel's interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS: Final = 5.0


def make(name: str) -> None:
    """Make the cgroup in each hierarchy."""
    for hierarchy in _hierarchies():
        folder = hierarchy / name
        folder.mkdir(exist_ok=True)
        if (hierarchy / "cpuset.cpus").exists() and not (hierarchy / "cgroup.controllers").exists():
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (folder / setting).write_text((hierarchy / setting).read_text())
            (folder / "cgroup.clone_children").write_text("1")
        if (hierarchy / "cgroup.subtree_control").exists():
            for controller in ("cpu", "cpuset", "memory", "pids", "io", "hugetlb"):
                with suppress(OSError):  # not all of them are everywhere
                    (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")


def remove(name: str) -> None:
    """Remove it and all below; its processes have been killed, and may need a moment."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while remaining := [hierarchy / name for hierarchy in _hierarchies() if (hierarchy / name).exists()]:
        for folder in remaining:
            for each in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                with suppress(OSError):
                    each.rmdir()
            with suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _hierarchies() -> Iterator[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        yield _ROOT
        return
    for folder in sorted(_ROOT.iterdir()):
        if folder.is_dir() and not folder.is_symlink() and folder.name != "unified":
            yield folder
