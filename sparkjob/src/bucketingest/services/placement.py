"""Where table services run: beside the query, in the pods of a Job, or not at all because Hudi's do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from bucketingest.services.foreign import ForeignServices

Mode = Literal["auto", "inline", "job", "off"]
_GIB: Final = 1024**3
LARGE: Final = 2 * _GIB
"""Bytes from which a compaction is worth pods: one process merges them in about a minute."""


class Home(StrEnum):
    """Where merges run."""

    INLINE = "inline"
    """In a process beside the query."""
    JOB = "job"
    """In the pods of a Kubernetes Job."""


@dataclass(frozen=True, slots=True)
class ServicesPolicy:
    """What the resource asks for, and what is there."""

    mode: Mode = "inline"
    makes_jobs: bool = False
    """Whether an operator watches this job that makes Jobs."""

    @property
    def may_want_pods(self) -> bool:
        """Whether a compaction may be merged by pods at all."""
        return self.makes_jobs and self.mode != "inline"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a compaction is merged, and why."""

    home: Home
    why: str


@dataclass(frozen=True, slots=True)
class LeftToHudi:
    """What this job leaves to Hudi's own services, each with the reason; None: it does it itself."""

    compaction: str | None = None
    tidying: str | None = None
    """Clean and archive."""


def choose_home(policy: ServicesPolicy, size: int, *, pods_missing: bool = False) -> Choice:
    """Where a compaction is merged whose base and log files have so many bytes.

    `pods_missing`: a Job was wanted lately, and no pod came.
    """
    if policy.mode == "inline":
        return Choice(Home.INLINE, "services.mode is inline")
    if not policy.makes_jobs:
        return Choice(Home.INLINE, "no operator makes Jobs here")
    if policy.mode == "job":
        return Choice(Home.JOB, "services.mode is job")
    # Off, too: what is pending is finished in the way that disturbs least.
    if pods_missing:
        return Choice(Home.INLINE, "no pod has started a compaction lately")
    if size < LARGE:
        return Choice(Home.INLINE, f"it is small: {_gib(size)} to read; a Job is worth it from {_gib(LARGE)}")
    return Choice(Home.JOB, f"it is large: {_gib(size)} to read")


def left_to_hudi(mode: Mode, found: ForeignServices) -> LeftToHudi:
    """What is left to Hudi's services: only mode auto does that. Who compacts also cleans and archives."""
    if mode != "auto":
        return LeftToHudi()
    if found.compaction is not None:
        why = f"another writer compacts the table (instant {found.compaction})"
        return LeftToHudi(why, why)
    if found.clean is not None:
        return LeftToHudi(tidying=f"another writer cleans the table (instant {found.clean})")
    return LeftToHudi()


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
