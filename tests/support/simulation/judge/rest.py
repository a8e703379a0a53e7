"""Judges what table services leave when all is at rest: nothing pending, nothing twice, few objects of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from bucketingest.services.archive.choose import COUNTED_BY_HUDI
from support.simulation.judge.instants import HISTORY, TIMELINE, WRITES
from support.simulation.judge.reader import Snapshot

_OWN: Final = ".hoodie/.bucketingest/services/"
_OBJECTS_MAX: Final = {"compaction": 4, "clean": 4, "archive": 4}
"""How many directories or objects of each service may be there: three are kept, one may have come since."""
_TWICE: Final = ("rollback", "savepoint")
"""Without a lock two writers may complete one of these, which does no harm."""
_ON_TIMELINE: Final = re.compile(r"(\d{17})(_\d{17})?\.([a-z]+)(?:\.(requested|inflight))?")


def at_rest(table: Snapshot, foreign_instants: AbstractSet[str], *, refuses_cleans: bool) -> Iterator[str]:
    """Everything that services should not have left. `refuses_cleans`: a pending clean may wait for a person."""
    instants = table.instants
    if pending := instants.compactions.keys() - foreign_instants:
        yield f"compactions are still pending: {sorted(pending)}"
    bases = Counter((file.group, file.instant) for file in table.files if file.is_base)
    for (group, instant), count in bases.items():
        if count > 1:
            yield f"file group {group} has {count} base files of compaction {instant}"
    operations = Counter(
        (each["partitionPath"], each["fileId"])
        for plan in instants.compactions.values()
        for each in plan["operations"] or ()
    )
    yield from (f"{group} is in {count} pending compactions" for group, count in operations.items() if count > 1)
    yield from _names(table, refuses_cleans=refuses_cleans or _is_void(table, foreign_instants))
    yield from _objects(table)


def overdue(table: Snapshot, before: str, *, waits: bool = False) -> Iterator[str]:
    """What should have gone days ago: files that readers no longer read, and instants on the timeline. `waits`: these
    may stay, for a pipeline that is gone has rows to ingest again.
    """
    old = []
    for slices in table.groups.values():
        for part, later in pairwise(slices):
            since = table.instants.completion_time(later.key) if later.base is not None else None
            if since is not None and since < before:
                old += [file.path for file in part.files]
    if old:
        yield f"files that nobody reads since {before} are still there: {sorted(old)}"
    active = sorted(time for time, each in table.instants.completed.items() if each.active and time < before)
    # While few came after it, the last compaction stays, for Hudi's scheduler counts from there.
    since = max((time for time, each in table.instants.completed.items() if each.action == "commit"), default=before)
    deltas = [time for time, each in table.instants.completed.items() if time > since and each.action == "deltacommit"]
    active = [time for time in active if time < since or len(deltas) >= COUNTED_BY_HUDI]
    if active and not waits:
        yield f"instants of before {before} are still on the timeline: {active}"


def _is_void(table: Snapshot, foreign_instants: AbstractSet[str]) -> bool:
    """Whether another writer's pending compaction can never be run: it was planned from a look that is older than what
    cleans retain, and lacks files. It refuses cleans of what else it names, until a person takes it back.
    """
    there = {file.path for file in table.files}
    return any(
        name is not None and f"{operation['partitionPath']}/{name.rpartition('/')[2]}" not in there
        for time, plan in table.instants.compactions.items()
        if time in foreign_instants
        for operation in plan["operations"] or ()
        for name in (operation["dataFilePath"], *operation["deltaFilePaths"])
    )


def _names(table: Snapshot, *, refuses_cleans: bool) -> Iterator[str]:
    found = [
        match
        for path in table.objects
        if path.startswith(TIMELINE) and not path.startswith(HISTORY)
        if (match := _ON_TIMELINE.fullmatch(path.removeprefix(TIMELINE)))
    ]
    done = Counter((match[1], match[3]) for match in found if match[2] and match[3] not in _TWICE)
    yield from (f"{action} {time} is completed {count} times" for (time, action), count in done.items() if count > 1)
    there = {(match[1], match[3], match[4] or "") for match in found}
    for time, action, state in sorted(there):
        if action != "compaction" or state != "inflight" or (time, "commit") in done:
            continue
        if (time, action, "requested") not in there:
            yield f"compaction {time} is inflight without a plan: nobody can end it"
    cleans = {match[1] for match in found if match[3] == "clean"} - {time for time, action in done if action == "clean"}
    if cleans and not refuses_cleans:
        yield f"cleans are still pending: {sorted(cleans)}"
    archived = {each.request_time for each in table.instants.completed.values() if not each.active}
    again = sorted(match[1] for match in found if match[3] in WRITES and match[1] in archived)
    horizon = max(archived, default="")
    if again:
        yield f"archived up to {horizon}, and on the timeline again: {again}"


def _objects(table: Snapshot) -> Iterator[str]:
    for service, most in _OBJECTS_MAX.items():
        root = f"{_OWN}{service}/"
        names = {path.removeprefix(root).partition("/")[0] for path in table.objects if path.startswith(root)}
        if len(names) > most:
            yield f"{root} has {len(names)} entries: {sorted(names)}"
