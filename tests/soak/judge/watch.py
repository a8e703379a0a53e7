"""The table as a bystander sees it while the pipeline runs: its commits, and how far the open instant is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bucketingest.hudi.errors import HudiError
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.storage import StorageError, open_storage
from bucketingest.write.instants.commit_content import EPOCH, RANGES
from bucketingest.write.instants.journal import ROOT
from bucketingest.write.pipeline_names import PIPELINE
from soak.fault_plan import Moment
from soak.judge.history import archived


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed deltacommit."""

    instant: Instant
    at: float
    """When its completed file was written, in Unix seconds by the file system; if it was archived before anyone looked,
    its completion time.
    """
    pipeline: str | None
    """None: Hudi's own."""
    epoch: int
    ranges: tuple[dict[str, Any], ...]
    partitions: frozenset[str]

    def __str__(self) -> str:
        return f"completed instant {self.instant.file_name}"


class TableWatch:
    """Looks at a table on the local file system; reads each completed file once. Archived instants stay commits."""

    def __init__(self, table: Path, pipeline: str) -> None:
        self.table = table
        self._timeline = table / TIMELINE_DIRECTORY
        self._instants = table / ROOT / pipeline / "instants"
        self._pipeline = pipeline
        self._known: dict[str, Commit] = {}
        self._archived: set[str] = set()
        self._asked: set[str] = set()  # missing ones for which the history has been asked
        self._gone: set[str] = set()
        self._overtaken: set[str] = set()

    @property
    def archived(self) -> int:
        """How many deltacommits were found in the history."""
        return len(self._archived)

    def commits(self) -> list[Commit]:
        """Completed deltacommits by completion time, archived ones included."""
        self._overtaken |= {path.parent.name for path in self._instants.glob("*/overtaken")}
        names = {name for name in self._names() if name.endswith(f".{DELTA_COMMIT}") and "_" in name}
        for name in names - self._known.keys():
            if (commit := self._read(name)) is not None:
                self._known[name] = commit
        missing = self._known.keys() - names - self._archived
        if missing - self._asked and self.read_history():
            self._asked |= missing
        self._gone = missing - self._archived
        return _sorted(commit for name, commit in self._known.items() if name not in self._gone)

    def overtaken(self) -> list[Commit]:
        """Those of the pipeline that a compaction of Hudi's left out: their rows have to come again."""
        return [commit for commit in self.ours() if commit.instant.request_time in self._overtaken]

    def gone(self) -> list[Commit]:
        """Those that were there and are not any more, neither on the timeline nor in the history."""
        self.commits()
        return _sorted(self._known[name] for name in self._gone)

    def read_history(self) -> bool:
        """Take in what was archived, also before anyone had seen it; False if the history cannot be read just now.

        Archival writes the history before it deletes.
        """
        try:
            history = archived(open_storage(str(self.table)))
        except (StorageError, HudiError, OSError):  # being written at this very moment: the next look finds it
            return False
        for each in history:
            if each.instant.action == DELTA_COMMIT:
                name = each.instant.file_name
                self._archived.add(name)
                if name not in self._known:
                    moment = parse_time(each.instant.completion_time or each.instant.request_time).timestamp()
                    self._known[name] = _commit(each.instant, CommitMetadata.decode(each.content, name), moment)
        return True

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
            case Moment.STARTED:
                return intents > ledgers
            case Moment.WRITING:
                return intents > ledgers and any(self.table.glob(f"*/.*_{folder.name}.log.{intents}_*"))
            case _:
                return 0 < intents == ledgers

    def completed_files(self) -> int:
        """Number of completed deltacommits, cheaply."""
        return sum(name.endswith(f".{DELTA_COMMIT}") for name in self._names())

    def _open(self) -> Path | None:
        """The newest instant's journal objects, unless it is decided."""
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
        return _commit(instant, metadata, at)


def _sorted(commits: Iterable[Commit]) -> list[Commit]:
    return sorted(commits, key=lambda commit: commit.instant.completion_time or "")


def _commit(instant: Instant, metadata: CommitMetadata, at: float) -> Commit:
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
