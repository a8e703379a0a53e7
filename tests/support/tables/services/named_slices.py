"""A table of names only: instants and files without content, and what a clean knows of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.plans.compaction_plan import CompactionOperation, CompactionPlan
from bucketingest.hudi.table.file_view import FileGroup, FileView, Group, build_file_view
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.choose import Choice, Retention, choose
from bucketingest.services.clean.facts import CleanFacts, PendingPlan, Superseder
from bucketingest.storage.interface import ObjectInfo

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FILE_ID = "00000000-0000-0000-0000-000000000000-0"
GROUP = ("eu", FILE_ID)
HOUR = Retention(retain=timedelta(hours=1))


def ago(minutes: float) -> str:
    """The instant time so long before now."""
    return format_time(NOW - timedelta(minutes=minutes))


@dataclass
class NamedTable:
    """Grows by instants. Times are in minutes before now; an instant takes one second unless it says otherwise."""

    paths: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    superseders: dict[str, Superseder] = field(default_factory=dict)
    modified: dict[str, datetime] = field(default_factory=dict)
    replaced: dict[Group, Instant] = field(default_factory=dict)
    pending: dict[Group, PendingPlan] = field(default_factory=dict)
    savepoints: dict[str, frozenset[str]] = field(default_factory=dict)

    def write(self, minutes: float, *groups: Group, done: float | None = None) -> str:
        """A deltacommit with a log file per group; its request time."""
        time = ago(minutes)
        self.names.append(f"{time}_{_done(minutes, done)}.deltacommit")
        for partition_path, file_id in groups or (GROUP,):
            self.paths[f"{partition_path}/{LogFileName(file_id, time, 1)}"] = 1
        return time

    def compact(
        self,
        minutes: float,
        *groups: Group,
        done: float | None = None,
        put: float | None = None,
        without: Collection[str] = (),
    ) -> str:
        """A compaction of the groups; its request time. `put`: when its completed file came. `without`: instants whose
        log files its plan leaves out.
        """
        time = ago(minutes)
        view = self.view()
        operations = []
        for partition_path, file_id in groups or (GROUP,):
            newest = view.partitions[partition_path][file_id].slices[-1]
            logs = [
                log.name
                for log in newest.log_files
                if log.instant not in without and (self.timeline().completion_time(log.instant) or "") < time
            ]
            base = None if newest.base_file is None else str(newest.base_file.name)
            operations.append(
                CompactionOperation(partition_path, file_id, newest.base_instant, base, tuple(map(str, logs)))
            )
        bases = frozenset(
            f"{partition_path}/{BaseFileName(file_id, time)}" for partition_path, file_id in groups or (GROUP,)
        )
        self.paths.update(dict.fromkeys(bases, 1))
        self.names.append(f"{time}_{_done(minutes, done)}.commit")
        self.superseders[time] = Superseder(CompactionPlan(tuple(operations)), bases)
        if put is not None:
            self.modified[time] = NOW - timedelta(minutes=put)
        return time

    def replace(self, minutes: float, group: Group = GROUP, *, done: float | None = None) -> str:
        """A replacecommit of the group; its request time."""
        time = ago(minutes)
        self.names.append(f"{time}_{_done(minutes, done)}.replacecommit")
        (self.replaced[group],) = Timeline.of_file_names(self.names[-1:]).instants
        assert self.replaced[group].action == REPLACE_COMMIT
        return time

    def timeline(self) -> Timeline:
        return Timeline.of_file_names(self.names)

    def view(self) -> FileView:
        return build_file_view(
            [ObjectInfo(path, size, NOW, None) for path, size in self.paths.items()], self.timeline()
        )

    def group(self, place: Group = GROUP) -> FileGroup:
        return self.view().partitions[place[0]][place[1]]

    def facts(self, *, last: str = "") -> CleanFacts:
        return CleanFacts(self.superseders.get, self.savepoints, self.replaced, self.pending, self.modified, last)

    def choose(self, retention: Retention = HOUR, *, last: str = "", files_max: int = 10**6) -> Choice:
        facts = self.facts(last=last)
        return choose(self.view(), self.timeline(), facts, retention, NOW, files_max=files_max)


def deleted_instants(choice: Choice) -> list[str]:
    """Times in the names of the files that the plan deletes, in its order."""
    if choice.plan is None:
        return []
    return [time_in(path) for path in choice.plan.paths]


def time_in(path: str) -> str:
    """The request time in a file's name."""
    name = path.rpartition("/")[2]
    parsed = LogFileName.try_parse(name) or BaseFileName.parse(name)
    return parsed.instant


def times_by_partition(files: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {partition_path: [time_in(name) for name in names] for partition_path, names in files.items()}


def _done(minutes: float, done: float | None) -> str:
    return format_time(parse_time(ago(minutes)) + timedelta(seconds=1)) if done is None else ago(done)
