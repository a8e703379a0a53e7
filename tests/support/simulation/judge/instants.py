"""The timeline as Hudi's readers see it: active instants by their names, archived ones by the history."""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow.parquet as pq

from support.simulation.records import record

TIMELINE: Final = ".hoodie/timeline/"
HISTORY: Final = ".hoodie/timeline/history/"
_LOG: Final = re.compile(r"_(\d{17})\.log\.")
_NAME: Final = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")
WRITES: Final = ("deltacommit", "commit", "compaction", "replacecommit", "inflight")
_NO_SCHEMA: Final = ("COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX")


@dataclass(frozen=True, slots=True)
class Instant:
    """A completed instant that wrote data, on the active timeline or in the history."""

    request_time: str
    completion_time: str
    action: str
    active: bool
    content: bytes = field(repr=False)
    plan: bytes | None = field(default=None, repr=False)
    """What the history has of its plan."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What its completed file says."""
        return record(self.content)

    @property
    def extra(self) -> Mapping[str, str]:
        """The text that its writer added."""
        return self.metadata.get("extraMetadata") or {}

    @property
    def replaces(self) -> Iterator[tuple[str, str]]:
        """Partition and file id of the file groups that it replaced."""
        if self.action == "replacecommit":
            for partition, file_ids in (self.metadata["partitionToReplaceFileIds"] or {}).items():
                yield from ((partition, file_id) for file_id in file_ids)

    @property
    def may_change_schema(self) -> bool:
        """Whether readers take the table's columns from it (Hudi 1.2.0: canUpdateSchema)."""
        return "schema" in self.extra and self.metadata.get("operationType") not in _NO_SCHEMA


@dataclass(frozen=True)
class Instants:
    """All instants of a table at one moment."""

    completed: Mapping[str, Instant]
    """Those that wrote data, archived ones too, by request time."""
    pending: frozenset[str]
    """Deltacommits that are requested or inflight only."""
    compactions: Mapping[str, Mapping[str, Any]]
    """Request time of each pending compaction -> its plan."""
    plans: Mapping[str, Mapping[str, Any]]
    """Request time of each compaction on the timeline, completed ones too -> its plan."""
    replaced: frozenset[tuple[str, str]]
    """Partition and file id of file groups that a completed instant replaced."""
    replaced_ever: frozenset[str]
    """Partitions of such file groups, also where the instant is archived."""
    cleaned: frozenset[str]
    """Paths of files that a clean, pending or completed, deletes."""
    savepoints: Mapping[str, frozenset[str]]
    """Name of each savepoint's completed file on the timeline -> the files that it keeps."""
    first_active: str
    """Files of older instants count as archived; empty: there are no such files."""
    rolled_back: frozenset[str]
    """Instants that a rollback, pending or completed, names."""
    pending_rollbacks: frozenset[str]
    """Instants that a rollback names which is not completed."""

    def is_visible(self, instant: str) -> bool:
        """Whether readers show the files of this instant."""
        found = self.completed.get(instant)
        return (found is not None and found.active) or instant < self.first_active

    def is_hidden(self, instant: str) -> bool:
        """Whether an archived instant is newer than the oldest active one: readers take it for uncommitted."""
        found = self.completed.get(instant)
        return found is not None and not found.active and "" != self.first_active <= instant

    def is_committed(self, instant: str) -> bool:
        """Whether readers show its files, or will as soon as nothing hides it."""
        return self.is_visible(instant) or self.is_hidden(instant)

    def completion_time(self, instant: str) -> str | None:
        """When a visible instant was completed; None: unknown."""
        found = self.completed.get(instant)
        return None if found is None else found.completion_time

    @functools.cached_property
    def by_completion(self) -> list[Instant]:
        """The completed instants in the order in which they became visible."""
        return sorted(self.completed.values(), key=lambda each: (each.completion_time, each.request_time))

    @functools.cached_property
    def compacted(self) -> frozenset[str]:
        """Instants with log files in the plans of compactions that are on the timeline."""
        operations = (each for plan in self.plans.values() for each in plan["operations"] or ())
        names = (name for each in operations for name in each["deltaFilePaths"] or ())
        return frozenset(match[1] for name in names if (match := _LOG.search(name)) is not None)

    @functools.cached_property
    def schema(self) -> str | None:
        """The table's schema by its newest commit that may change it."""
        return next((each.extra["schema"] for each in reversed(self.by_completion) if each.may_change_schema), None)

    @functools.cached_property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that readers show; None: all."""
        return None if self.schema is None else tuple(field["name"] for field in json.loads(self.schema)["fields"])


def read_instants(objects: Mapping[str, bytes]) -> Instants:
    """The instants that these objects (path -> content) stand for."""
    archived = _archived(objects)
    writes_archived = [each for each in archived if each.action in WRITES]
    pending, finished, writes = set(), set(), set()
    plans: dict[str, Mapping[str, Any]] = {}
    savepoints: dict[str, frozenset[str]] = {}
    rolled_back = {time for each in archived if each.action == "rollback" for time in each.metadata["commitsRollback"]}
    cleaned = {file for each in archived if each.action == "clean" and each.plan for file in plan_of_clean(each.plan)}
    rollbacks: dict[str, str] = {}
    writes_active: list[Instant] = []
    for path, content in objects.items():
        match = _NAME.fullmatch(path[len(TIMELINE) :]) if path.startswith(TIMELINE) else None
        if match is None:
            continue
        time, done, action, state = match.groups()
        if action in WRITES:
            writes.add(time)
        if action == "rollback":
            if done:
                finished.add(time)
                rolled_back.update(record(content)["commitsRollback"])
            elif state == "requested" and content:
                rollbacks[time] = record(content)["instantToRollback"]["commitTime"]
        elif action == "clean" and state == "requested":
            cleaned |= plan_of_clean(content)
        elif action == "savepoint" and done:
            savepoints[path.removeprefix(TIMELINE)] = _kept(content)
        elif action == "compaction" and state == "requested":
            plans[time] = record(content)
        elif action in WRITES and done:
            writes_active.append(Instant(time, done, action, active=True, content=content))
        elif action == "deltacommit":
            pending.add(time)
    completed = _by_time([*writes_archived, *writes_active])
    active = {time for time, each in completed.items() if each.active}
    return Instants(
        completed=completed,
        pending=frozenset(pending - active),
        compactions={time: plan for time, plan in plans.items() if time not in active},
        plans=plans,
        replaced=frozenset(group for each in completed.values() if each.active for group in each.replaces),
        replaced_ever=frozenset(
            partition
            for each in completed.values()
            if each.action == "replacecommit" and each.metadata["operationType"] == "DELETE_PARTITION"
            for partition in each.metadata["partitionToReplaceFileIds"] or {}
        ),
        cleaned=frozenset(cleaned),
        savepoints=savepoints,
        first_active=min(writes, default=""),
        rolled_back=frozenset(rolled_back | set(rollbacks.values())),
        pending_rollbacks=frozenset(target for time, target in rollbacks.items() if time not in finished),
    )


def _by_time(instants: Iterable[Instant]) -> dict[str, Instant]:
    """By request time; of one time the later, but a compaction does not hide the ranges of a deltacommit to which a
    scheduler without lock gave its time.
    """
    found: dict[str, Instant] = {}
    for instant in instants:
        other = found.get(instant.request_time)
        if other is not None and other.action == "deltacommit" != instant.action:
            found[instant.request_time] = replace(other, active=other.active or instant.active)
        elif other is not None and instant.action == "deltacommit" != other.action:
            found[instant.request_time] = replace(instant, active=other.active or instant.active)
        else:
            found[instant.request_time] = instant
    return found


@functools.lru_cache(maxsize=4096)
def plan_of_clean(content: bytes) -> frozenset[str]:
    """Paths of the files that a clean deletes, relative to the table's root."""
    files = (record(content)["filePathsToBeDeletedPerPartition"] or {}).values()
    return frozenset(_relative(each["filePath"]) for listed in files for each in listed)


def _relative(path: str) -> str:
    return path.removeprefix("sim://table/")


def _kept(content: bytes) -> frozenset[str]:
    partitions = (record(content)["partitionMetadata"] or {}).items()
    return frozenset(f"{partition}/{name}" for partition, each in partitions for name in each["savepointDataFile"])


def _archived(objects: Mapping[str, bytes]) -> list[Instant]:
    version = objects.get(f"{HISTORY}_version_")
    if version is None:
        manifests = [int(path.rpartition("_")[2]) for path in objects if path.startswith(f"{HISTORY}manifest_")]
        if not manifests:
            return []
        version = str(max(manifests)).encode()
    manifest = json.loads(objects[f"{HISTORY}manifest_{int(version)}"])
    return [each for entry in manifest["files"] for each in _history_file(objects[HISTORY + entry["fileName"]])]


@functools.lru_cache(maxsize=256)
def _history_file(data: bytes) -> tuple[Instant, ...]:
    rows = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False).to_pylist()
    return tuple(
        Instant(
            row["instantTime"],
            row["completionTime"],
            row["action"],
            active=False,
            content=row["metadata"] or b"",
            plan=row["plan"],
        )
        for row in rows
    )
