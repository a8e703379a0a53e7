"""Which processors images are built for: this machine's, or others, whose programs qemu then runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devcluster.errors import ClusterError

_HANDLERS: Final = Path("/proc/sys/fs/binfmt_misc")
_QEMU: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
"""An architecture's name in images and Debian, and in the kernel and qemu."""
PLATFORMS: Final = tuple(f"linux/{architecture}" for architecture in _QEMU)


def native() -> str:
    """The architecture of this machine: amd64, arm64, or what the kernel calls it."""
    machine = platform.machine()
    return {**{theirs: ours for ours, theirs in _QEMU.items()}, "arm64": "arm64"}.get(machine, machine)


def require_programs_of(architecture: str, handlers: Path = _HANDLERS) -> None:
    """Programs of this architecture run here, by the processor or by qemu in every chroot. `handlers`: binfmt_misc.

    Raises:
        ClusterError: they do not.
    """
    if architecture == native():
        return
    try:
        flags = (handlers / f"qemu-{_QEMU[architecture]}").read_text(encoding="utf-8")
    except FileNotFoundError:
        flags = ""
    # F: the kernel holds qemu open, so that a chroot need not have it.
    if not any(line.startswith("flags:") and "F" in line[6:] for line in flags.splitlines()):
        raise ClusterError(
            f"this machine runs no programs of {architecture}. On Debian or Ubuntu: sudo apt-get install "
            f"qemu-user-static binfmt-support; sudo update-binfmts --enable qemu-{_QEMU[architecture]}"
        )
