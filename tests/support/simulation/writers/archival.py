"""Archival by another writer: the oldest completed instants go into the history, then off the timeline."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from support.simulation.judge.instants import HISTORY, TIMELINE, Instant, Instants
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.visit import Visit

_COLUMNS = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        ("version", pa.int32()),
    ]
)


def archive(visit: Visit, actor: Actor, storage: View) -> None:
    """One run, under the lock: a history file, a manifest, the version; only then the timeline's files are deleted."""
    visit.table.archivers.add(actor.name)
    with visit.world.atomically(actor):
        table = visit.look(storage)
        old = _oldest(table.instants, visit.rng.choice((1, 1, 2, 4)))
        if not old:
            return
        name = f"{old[0].request_time}_{old[-1].request_time}_0.parquet"
        content = _history_file(old, table.objects)
        storage.put(HISTORY + name, content)
        version = int(table.objects.get(f"{HISTORY}_version_", b"0"))
        known = json.loads(table.objects.get(f"{HISTORY}manifest_{version}", b'{"files": []}'))["files"]
        files = [entry for entry in known if entry["fileName"] != name] + [{"fileName": name, "fileLen": len(content)}]
        storage.put(f"{HISTORY}manifest_{version + 1}", json.dumps({"files": files}).encode())
        storage.put(f"{HISTORY}_version_", str(version + 1).encode())
        visit.world.note(visit.name, "archives", f"{old[0].request_time} to {old[-1].request_time}")
        times = tuple(f"{TIMELINE}{each.request_time}" for each in old)
        own = sorted(path for path in table.objects if path.startswith(times))
        pending = [path for path in own if path.endswith((".requested", ".inflight"))]
        storage.delete_many([path for path in pending if ".clean." not in path and ".rollback." not in path])
        storage.delete_many(f"{TIMELINE}{each.request_time}_{each.completion_time}.{each.action}" for each in old)


def _oldest(instants: Instants, kept: int) -> list[Instant]:
    """Completed instants from the oldest on, up to the first that must stay."""
    active = sorted((each for each in instants.completed.values() if each.active), key=lambda each: each.request_time)
    compactions = [each.request_time for each in active if each.action == "commit"]
    schemas = [each.request_time for each in instants.by_completion if each.active and each.may_change_schema]
    stay = [
        *instants.pending,
        *instants.compactions,
        *compactions[-1:],
        *schemas[-1:],
        *(each.request_time for each in active if each.action == "replacecommit"),
        *(name[:17] for name in instants.savepoints),
    ]
    first = min(stay, default="9")
    return [each for each in active[:-kept] if each.request_time < first]


def _history_file(instants: list[Instant], objects: Mapping[str, bytes]) -> bytes:
    rows = [
        {
            "instantTime": each.request_time,
            "completionTime": each.completion_time,
            "action": each.action,
            "metadata": each.content,
            "plan": objects.get(f"{TIMELINE}{each.request_time}.compaction.requested"),
            "version": 1,
        }
        for each in instants
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=_COLUMNS), sink)
    return sink.getvalue()
