"""Judges compactions of the pipeline where they become final: that one is carried out, and how a round ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from support.simulation.judge.changes.actors import is_own
from support.simulation.judge.file_content import entries_of
from support.simulation.judge.files import DataFile, data_file, inputs_of, named_files
from support.simulation.judge.instants import TIMELINE
from support.simulation.judge.reader import Slice, Snapshot
from support.simulation.records import record
from support.simulation.source import SCHEMA
from support.simulation.store import Objects

_ROLLBACK: Final = re.compile(r"\.hoodie/timeline/(\d{17})\.rollback\.requested")


class Compactions:
    """Looks at a table's compactions."""

    def __init__(self, table: Objects) -> None:
        self._table = table

    def second_operations(self, root: str, looked: int) -> Iterator[str]:
        """A compaction may be carried out although a file group of it was in another pending one."""
        plan = self._table.objects[f"{root}plan"].content.partition(b"\n")[2]
        instants = self._table.instants
        own = next((t for t, each in instants.compactions.items() if each == record(plan)), None)
        if own is None or self._is_started_by_another(own):
            return
        for time, other in instants.compactions.items():
            both = _groups(other) & _groups(instants.compactions[own])
            since = self._table.since(f"{TIMELINE}{time}.compaction.requested")
            if time != own and both and since < looked:
                yield f"{sorted(both)} are in two pending compactions: {own} and {time}"

    def _is_started_by_another(self, compaction: str) -> bool:
        """Whether another writer was faster than our look at what came before: it carries it out, whatever we say."""
        inflight = f"{TIMELINE}{compaction}.compaction.inflight"
        return inflight in self._table.objects and not is_own(self._table.creators.get(inflight, ""))

    def bases(self, root: str, number: str, content: bytes) -> Iterator[str]:
        """Each base file of the round has the rows of all logs that completed before the compaction."""
        commit = content.partition(b"\n")[2]
        if not commit:
            return
        results = f"{root}round/{number}/result/"
        asked = max((o.step for path, o in self._table.objects.items() if path.startswith(results)), default=0)
        table = self._table.snapshot
        yield from self._rolled_back(root, number, asked)
        for path in named_files(record(commit)):
            base = data_file(path)
            if base is not None and path in table.objects and base.group not in table.instants.replaced:
                yield from self._base(table, base, asked)

    def _compaction(self, root: str) -> str:
        return str(json.loads(self._table.objects[f"{root}plan"].content.partition(b"\n")[0])["compaction"])

    def _rolled_back(self, root: str, number: str, asked: int) -> Iterator[str]:
        """A rollback that came before the last base file does away with the round, and is finished before the next."""
        compaction = self._compaction(root)
        known = json.loads(self._table.objects[f"{root}round/{number}/opened"].content)["rollbacks"]
        for path, stored in self._table.objects.items():
            match = _ROLLBACK.fullmatch(path)
            if match is None or stored.step >= asked or not stored.content:
                continue
            if record(stored.content)["instantToRollback"]["commitTime"] != compaction:
                continue
            finished = any(p.startswith(f"{TIMELINE}{match[1]}_") for p in self._table.objects)
            if match[1] not in known or not finished:
                yield f"round {number} of {compaction} is committed beside its rollback {match[1]}"

    def _base(self, table: Snapshot, base: DataFile, asked: int) -> Iterator[str]:
        instants = table.instants
        if base.instant in instants.completed:
            return  # by another writer, which may have cleaned the logs since
        files = [file for file in table.files if file.group == base.group and instants.is_committed(file.instant)]
        older = [file for file in files if file.is_base and file.instant < base.instant]
        before = max(older, key=lambda file: file.instant, default=None)
        # A base file whose plan came later, without lock, may lack rows of logs that this compaction's plan names.
        planned = inputs_of(instants.plans.get(base.instant, {}))
        if any(path not in self._table.objects and base.group[1] in path for path in planned):
            # A rollback of another writer's instant deleted it, or a clean of the whole partition, perhaps after it was
            # merged: its rows come again, and the merge of both is right. Lost rows are found at the end.
            return
        logs = []
        for log in files:
            done = None if log.is_base else instants.completion_time(log.instant)
            if done is None or done >= base.instant:
                continue
            if before is not None and done < before.instant and log.path not in planned:
                continue
            if log.instant in instants.rolled_back or log.instant in self._table.overtaken:
                return  # whether its rows are in is not decided
            if self._table.since(f"{TIMELINE}{log.instant}_{done}.deltacommit") >= asked:
                return  # it came while the round was decided: the audit finds it
            logs.append(log)
        logs.sort(key=lambda each: each.order)
        wanted = _rows(table.merged(Slice("", before, tuple(logs))))
        found = _rows(entry.row for entry in entries_of(base, table.objects[base.path]) if entry.row is not None)
        if wanted != found:
            yield f"{base.path} has {found}, and should have {wanted} of {[log.path for log in logs]}"


def _rows(rows: Any) -> dict[str, tuple[Any, ...]]:
    return {row["_hoodie_record_key"]: tuple(row[name] for name in SCHEMA.names) for row in rows}


def _groups(plan: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(each["partitionPath"], each["fileId"]) for each in plan["operations"] or ()}
