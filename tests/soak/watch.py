"""The table as a bystander sees it while the pipeline runs: its commits, and how far the open instant is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bucketingest.hudi.commit_metadata import CommitMetadata
from bucketingest.hudi.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.write.commit_content import EPOCH, PIPELINE, RANGES
from bucketingest.write.coordination import ROOT
from soak.plan import Moment


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed deltacommit."""

    instant: Instant
    at: float
    """When its completed file was written, in Unix seconds by the file system."""
    pipeline: str | None
    """None: Hudi's own."""
    epoch: int
    ranges: tuple[dict[str, Any], ...]
    partitions: frozenset[str]


class TableWatch:
    """Looks at a table on the local file system; reads each completed file once."""

    def __init__(self, table: Path, pipeline: str) -> None:
        self.table = table
        self._timeline = table / TIMELINE_DIRECTORY
        self._instants = table / ROOT / pipeline / "instants"
        self._pipeline = pipeline
        self._known: dict[str, Commit] = {}
        self.vanished: set[str] = set()
        """Completed files that were there and are not any more."""

    def commits(self) -> list[Commit]:
        """Completed deltacommits by completion time."""
        names = {name for name in self._names() if name.endswith(f".{DELTA_COMMIT}") and "_" in name}
        self.vanished |= self._known.keys() - names
        for name in names - self._known.keys():
            if (commit := self._read(name)) is not None:
                self._known[name] = commit
        found = [self._known[name] for name in names if name in self._known]
        return sorted(found, key=lambda commit: commit.instant.completion_time or "")

    def ours(self) -> list[Commit]:
        """Those of the pipeline."""
        return [commit for commit in self.commits() if commit.pipeline == self._pipeline]

    def newest(self) -> float:
        """When the pipeline last completed an instant; 0 if never."""
        return max((commit.at for commit in self.ours()), default=0.0)

    def first_after(self, moment: float) -> float | None:
        """When the pipeline first completed an instant after a moment."""
        return min((commit.at for commit in self.ours() if commit.at > moment), default=None)

    def ends(self) -> dict[str, int]:
        """Next offset of each topic partition, by the newest commit of the pipeline."""
        ours = self.ours()
        return dict(next(iter(ours[-1].ranges[-1]["end"].values()))) if ours else {}

    def reached(self, moment: Moment, commits_before: int) -> bool:
        """Whether the moment is now."""
        match moment:
            case Moment.ANY:
                return True
            case Moment.COMMITTED:
                return sum(name.endswith(f".{DELTA_COMMIT}") for name in self._names()) > commits_before
        folder = self._open()
        if folder is None:
            return False
        intents, ledgers = _count(folder / "intent"), _count(folder / "ledger")
        match moment:
            case Moment.BEGUN:
                return intents > ledgers
            case Moment.WRITING:
                return intents > ledgers and any(self.table.glob(f"*/.*_{folder.name}.log.{intents}_*"))
            case _:
                return 0 < intents == ledgers

    def completed_files(self) -> int:
        """Number of completed deltacommits, cheaply."""
        return sum(name.endswith(f".{DELTA_COMMIT}") for name in self._names())

    def _open(self) -> Path | None:
        """The newest instant's coordination objects, unless it is decided."""
        try:
            newest = max(self._instants.iterdir(), default=None)
        except OSError:
            return None
        return None if newest is None or (newest / "decision").exists() else newest

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self._timeline.iterdir()]
        except OSError:
            return []

    def _read(self, name: str) -> Commit | None:
        instant = Instant.try_parse(name)
        path = self._timeline / name
        if instant is None or not instant.is_completed:
            return None
        try:
            metadata, at = CommitMetadata.decode(path.read_bytes(), name), path.stat().st_mtime
        except OSError:  # rolled back at this very moment
            return None
        extra = metadata.extra_metadata
        return Commit(
            instant,
            at,
            extra.get(PIPELINE),
            int(extra.get(EPOCH, 0)),
            tuple(json.loads(extra.get(RANGES, "[]"))),
            frozenset(metadata.write_stats),
        )


def _count(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return 0
