"""The process in which table services look at a table and merge: at low priority, beside the job that started it.

A process of its own, so that neither its memory nor Python's lock is in the way of a commit. It gets requests on its
standard input, each with whether another one may follow, and answers on its standard output, a JSON object per line:
log records, the operation that it has started, at last the answer. When its standard input ends, the job has ended, and
so does it.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.damage.look import damage_of_table
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.lock.hudi_lock import LockSettings, open_lock
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.heartbeat import beating
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.lease.guard import StoredLease, lease_and_lock
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.archive.choose import Pin as ArchivePin
from bucketingest.services.clean.choose import Choice, Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.inline import ClusteringWish, MakeBaseFiles
from bucketingest.services.clustering.propose import ClusteringLook
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.commit import Ready, ready_commit
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import LogBacklog, Look, TableNow, propose_for
from bucketingest.services.compaction.records import CompactionJournal, Task, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.compaction.sweep import Swept, sweep
from bucketingest.services.foreign import ForeignServices, foreign_services
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.services.protocol.records import HEARTBEAT
from bucketingest.spec.job_report import Pin
from bucketingest.storage import Storage
from bucketingest.write.instants.taken_out import overtaken

PRIORITY: Final = 10
"""Added to the niceness: the job goes first."""
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({})))


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to `Propose`."""

    look: Look
    foreign: ForeignServices
    """What another writer did lately."""
    clustering: ClusteringLook | None = None
    """Small file groups, where they are merged."""
    commits: int = 0
    """On the timeline."""

    @property
    def damaged(self) -> tuple[Damaged, ...]:
        """Files that the file groups lack which would be compacted or merged."""
        return (*self.look.damaged, *(() if self.clustering is None else self.clustering.damaged))


@dataclass(frozen=True, slots=True)
class Propose:
    """Look at the table; the answer is what was found."""

    storage: Storage
    triggers: CompactionTriggers
    skipped: frozenset[Group] = frozenset()
    clustering: ClusteringWish | None = None
    """None: small file groups stay."""

    def run(self, _: Callable[[int, int], None]) -> Looked:
        """Carry the request out. The answer is without the single file groups: the job needs only the plan."""
        now, found = utc_now(), TableNow.load(self.storage)
        if found is None:
            return Looked(Look(LogBacklog(), None), foreign_services(self.storage, now))
        look = propose_for(self.storage, found, self.triggers, now, self.skipped)
        if look.proposal is not None:
            look = replace(look, proposal=look.proposal.without_groups())
        clustering = None if self.clustering is None else self.clustering.look(self.storage, found)
        commits = len(found.timeline.completed_commits)
        return Looked(look, foreign_services(self.storage, now), clustering, commits)


@dataclass(frozen=True, slots=True)
class Execute:
    """Do what takes long in a compaction; the answer is what its holder goes on with."""

    storage: Storage
    work: Work
    gives_up: Mapping[int, str] = field(default_factory=dict)

    def run(self, starts: Callable[[int, int], None]) -> Ready | Swept:
        """Carry the request out."""
        work, journal = self.work, CompactionJournal(self.storage)
        if work.task is Task.SWEEP:
            return sweep(self.storage, journal, work.number)
        with beating(self.storage, work.compaction, content=HEARTBEAT):
            if work.task is Task.MERGE:
                executor = RoundExecutor(self.storage, work.number, work.round_number)
                executor.run(gives_up=self.gives_up, starts=starts)
            return ready_commit(self.storage, journal, work.number, work.round_number)


@dataclass(frozen=True, slots=True)
class Tidied:
    """The answer to `Tidy`."""

    files: int
    """Files that cleans deleted."""
    instants: int
    """Instants that were archived."""
    damaged: tuple[Damaged, ...] = ()
    """All damaged data files of the table."""
    pins: tuple[Pin, ...] = ()
    """What holds clean and archive."""


@dataclass(frozen=True, slots=True)
class Tidy:
    """Delete what compactions left, clean the table, and archive old instants."""

    storage: Storage
    retention: Retention
    archive: ArchiveRules
    lock: LockSettings
    lease_id: str
    """Of the job, which holds the table."""
    running: str = ""
    """Name of the pipeline whose query runs meanwhile."""

    def run(self, _: Callable[[int, int], None]) -> Tidied:
        """Carry the request out."""
        properties = load_table(self.storage).properties
        lock = open_lock(self.storage, properties, self.lock, "bucketingest table services")
        check = lease_and_lock(StoredLease(self.storage, self.lease_id), lock)
        CompactionHolder(self.storage, lock.held, check).sweep_old()
        ClusteringHolder(self.storage, lock.held, check).sweep()
        table = Guarded(self.storage, lock.held, check, running=self.running)
        cleaned = clean(table, self.retention)
        damaged = damage_of_table(self.storage, overtaken)
        archived = archive_old(table, self.archive, damaged, retained=cleaned.choice.retained)
        files = sum(each.files for each in cleaned.results)
        held = pins(cleaned.choice, archived[-1].pins if archived else (), self.retention, utc_now())
        return Tidied(files, sum(len(each.instants) for each in archived), damaged, held)


Request = Propose | Execute | MakeBaseFiles | Tidy


class _Forward(logging.Handler):
    """Hands log records to the job, which writes them as its own."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        extra = {name: str(value) for name, value in vars(record).items() if name not in _STANDARD}
        self._send({"log": [record.levelno, record.name, record.getMessage(), extra]})


def main() -> None:
    """Read requests, carry them out, answer. An error is an answer, too."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what else is printed must not look like an answer
    sending = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with sending:
            out.write(json.dumps(message) + "\n")
            out.flush()

    logging.basicConfig(level=logging.INFO, handlers=[_Forward(send)])
    os.nice(PRIORITY)
    with suppress(OSError):  # if memory runs out, the kernel ends this process, not the job's JVM
        Path("/proc/self/oom_score_adj").write_text("900", "ascii")
    asked: SimpleQueue[tuple[Request, bool]] = SimpleQueue()
    threading.Thread(target=_read, args=(asked,), name="end-with-job", daemon=True).start()  # noqa: TID251 - ends a process beside the driver
    stays = True
    while stays:
        request, stays = asked.get()
        answer: object
        try:
            answer = request.run(lambda place, of: send({"operation": place, "of": of}))
        except Exception as error:  # noqa: BLE001 - the job decides what it means
            answer = error
        send({"answer": base64.b64encode(pickle.dumps(answer)).decode()})
    out.close()
    os._exit(0)  # the other thread still reads, and Python would wait for it


def _read(asked: SimpleQueue[tuple[Request, bool]]) -> None:
    with suppress(EOFError):
        while True:
            asked.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - from the job that started this process
    os._exit(1)


if __name__ == "__main__":
    main()


def pins(cleaned: Choice, archived: tuple[ArchivePin, ...], retention: Retention, now: datetime) -> tuple[Pin, ...]:
    """What holds them, the oldest first. `cleaned`, `archived`: what the last clean and archival found.

    What each table has, such as a last compaction, does not count; nor what passes by itself: superseded files stay for
    the time to retain, and late files are waited for a day.
    """
    found = [*_of_clean(cleaned, retention, now), *_of_archive(archived, retention, now)]
    return tuple(sorted((pin for pin in found if pin.seconds > 0), key=lambda pin: -pin.seconds))


def _of_clean(cleaned: Choice, retention: Retention, now: datetime) -> Iterator[Pin]:
    if cleaned.limit.pending:
        yield _pin("clean", cleaned.limit.why, cleaned.limit.pending, timedelta(), now)
    by_reason = {}
    for kept in sorted(cleaned.kept, key=lambda each: each.superseded_by, reverse=True):
        by_reason[kept.why] = kept  # the oldest stays
    for kept in by_reason.values():
        by = f"file group {kept.file_id} of partition {kept.partition_path!r}: {kept.why}"
        yield _pin("clean", by, kept.superseded_by, retention.retain or timedelta(), now)


def _of_archive(archived: tuple[ArchivePin, ...], retention: Retention, now: datetime) -> Iterator[Pin]:
    for each in archived:
        passes = KEPT_FOR + (retention.retain or timedelta()) if each.waits else timedelta()
        if not each.is_usual and (each.group is None or retention.versions is None):
            where = "" if each.group is None else f", file group {each.group[1]} of partition {each.group[0]!r}"
            yield _pin("archive", f"instant {each.instant}: {each.why}{where}", each.instant, passes, now)


def _pin(service: str, by: str, since: str, passes: timedelta, now: datetime) -> Pin:
    seconds = (now - parse_time(since) - passes).total_seconds()
    return Pin.model_validate({"service": service, "by": by, "seconds": max(seconds, 0.0)})
