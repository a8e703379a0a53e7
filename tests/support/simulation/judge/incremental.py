"""What Hudi's Spark reader shows of the commits between two completion times, by the files that these commits name
(MergeOnReadIncrementalRelationV2): it takes the file slices from the commits of the range, and leaves out file groups
that were replaced. That no other reader misses rows follows from the times of services, which are judged as they come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from support.simulation.judge.files import DataFile, data_file, named_files
from support.simulation.judge.instants import Instants
from support.simulation.judge.reader import Place, Slice, Snapshot

Shown = Mapping[Place, Mapping[str, Any]]


def changes(table: Snapshot, begin: str, end: str) -> Shown:
    """The rows that it shows of the commits that completed after `begin` and not after `end`."""
    commits = [each for each in table.instants.by_completion if begin < each.completion_time <= end]
    if not commits:
        return {}
    last = max(each.request_time for each in commits)
    replaced = {
        group for each in table.instants.completed.values() if each.request_time <= last for group in each.replaces
    }
    groups: defaultdict[tuple[str, str], set[DataFile]] = defaultdict(set)
    for path in (path for commit in commits for path in named_files(commit.metadata)):
        file = data_file(path)
        if file is not None and path in table.objects and file.group not in replaced:
            groups[file.group].add(file)
    included = {each.request_time for each in commits}
    return {
        (group[0], row["_hoodie_record_key"]): row
        for group, files in groups.items()
        for row in table.merged(_newest(table.instants, files, last))
        if row["_hoodie_commit_time"] in included
    }


def before(table: Snapshot, end: str) -> Snapshot:
    """The table as a reader sees it that travels back to this completion time. It takes all that is older than the
    first active instant for archived, also what another writer that was cut off put there after its rollback.
    """
    instants = table.instants
    completed = {time: each for time, each in instants.completed.items() if each.completion_time <= end}
    replaced = {group for each in completed.values() for group in each.replaces}
    late = {file.instant for file in table.files if file.instant < instants.first_active} - instants.completed.keys()
    files = tuple(file for file in table.files if file.instant in completed or file.instant in late)
    known = replace(instants, completed=completed, replaced=frozenset(replaced), compactions={})
    return replace(table, instants=known, files=files)


def _newest(instants: Instants, files: Iterable[DataFile], last: str) -> Slice:
    """The newest slice of a file group that is not newer than `last`, of these files."""
    bases = {file.instant: file for file in files if file.is_base}
    placed: defaultdict[str, list[DataFile]] = defaultdict(list)
    for log in sorted((file for file in files if not file.is_base), key=lambda each: each.order):
        done = instants.completion_time(log.instant) or ""
        placed[max((key for key in bases if key <= done), default="")].append(log)
    key = max((key for key in {*bases, *placed} if key <= last), default="")
    return Slice(key, bases.get(key), tuple(placed[key]))
