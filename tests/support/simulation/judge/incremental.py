"""What readers show of the commits between two completion times, by the files that these commits name: as Hudi's Spark
reader plans it (MergeOnReadIncrementalRelationV2) and as hudi-rs does (Timeline::get_file_groups_between).

Both take the file slices from the commits of the range, and leave out file groups that were replaced. They differ in
which request and completion times they look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from support.simulation.judge.files import DataFile, data_file
from support.simulation.judge.instants import Instant, Instants
from support.simulation.judge.reader import Place, Slice, Snapshot

Reader = Literal["spark", "hudi-rs"]
READERS: Final[tuple[Reader, ...]] = ("spark", "hudi-rs")
Shown = Mapping[Place, Mapping[str, Any]]


def changes(table: Snapshot, begin: str, end: str, reader: Reader) -> Shown:
    """The rows that this reader shows of the commits that completed after `begin` and not after `end`."""
    commits = [each for each in table.instants.by_completion if begin < each.completion_time <= end]
    if not commits:
        return {}
    # Spark compares request times with the greatest one of the range's commits, hudi-rs with the end of the range.
    last = max(each.request_time for each in commits) if reader == "spark" else end
    replaced = _replaced(table.instants.completed.values(), last)
    groups: defaultdict[tuple[str, str], set[DataFile]] = defaultdict(set)
    for path in (path for commit in commits for path in named_files(commit)):
        file = data_file(path)
        if file is not None and path in table.objects and file.group not in replaced:
            groups[file.group].add(file)
    slices = _known_slices(table) if reader == "hudi-rs" else {}
    included = {each.request_time for each in commits}
    return {
        (group[0], row["_hoodie_record_key"]): row
        for group, files in groups.items()
        for row in table.merged(_newest(table.instants, files, slices.get(group, {}), last))
        if row["_hoodie_commit_time"] in included
    }


def before(table: Snapshot, end: str) -> Snapshot:
    """The table as a reader sees it that travels back to this completion time."""
    instants = table.instants
    completed = {time: each for time, each in instants.completed.items() if each.completion_time <= end}
    replaced = {
        (partition, file_id)
        for each in completed.values()
        if each.action == "replacecommit"
        for partition, file_ids in (each.metadata["partitionToReplaceFileIds"] or {}).items()
        for file_id in file_ids
    }
    files = tuple(file for file in table.files if file.instant in completed)
    known = replace(instants, completed=completed, replaced=frozenset(replaced), compactions={}, first_active="")
    return replace(table, instants=known, files=files)


def named_files(commit: Instant) -> list[str]:
    """Paths of the files that a commit wrote."""
    stats = (commit.metadata["partitionToWriteStats"] or {}).values()
    return [stat["path"] for of_partition in stats for stat in of_partition]


def _replaced(instants: Iterable[Instant], last: str) -> set[tuple[str, str]]:
    return {
        (partition, file_id)
        for each in instants
        if each.action == "replacecommit" and each.request_time <= last
        for partition, file_ids in (each.metadata["partitionToReplaceFileIds"] or {}).items()
        for file_id in file_ids
    }


def _known_slices(table: Snapshot) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """By file group: request time of each base file, and when it was completed."""
    found: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for base in (file for file in table.files if file.is_base):
        done = table.instants.completion_time(base.instant)
        if done is not None:
            found[base.group][base.instant] = done
    return found


def _newest(instants: Instants, files: Iterable[DataFile], known: Mapping[str, str], last: str) -> Slice:
    """The newest slice of a file group that is not newer than `last`, of these files. `known`: slices that log files
    may belong to although their base files are not in the range; one that was completed after it is left out.
    """
    bases = {file.instant: file for file in files if file.is_base}
    placed: defaultdict[str, list[DataFile]] = defaultdict(list)
    for log in sorted((file for file in files if not file.is_base), key=lambda each: each.order):
        done = instants.completion_time(log.instant) or ""
        placed[max((key for key in {*bases, *known} if key <= done), default="")].append(log)
    key = max((key for key in {*bases, *placed} if key <= last), default="")
    is_later = key not in bases and known.get(key, "") > last
    return Slice(key, bases.get(key), () if is_later else tuple(placed[key]))
