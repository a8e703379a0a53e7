"""The objects by which attempts of a pipeline agree about an instant: epochs, intents, ledger entries, and the
decision.

They are in `.hoodie/.bucketingest/<pipeline>/`, where neither readers nor Hudi's writers look. All are created if
absent, so of two attempts exactly one decides, and the other reads what was decided.

    epoch/<n>                                  claimed by each attempt at its start
    beginning/<digest>                         where a source configured to start at its end started, for the next start
    letters/<digest>                           a place where dead letters of the pipeline are staged and published
    instants/<instant>/intent/<sequence>       the source range of a micro-batch, before its tasks start; or, after the
                                               last one, that no further one may start
    instants/<instant>/assign/<digest>         with a state: the plan that gives each key its file group, before the
                                               intent that names it
    instants/<instant>/ledger/<sequence>       what its tasks wrote, after all have reported
    instants/<instant>/decision                commit (completion time, bytes of the completed file) or abort (why)
    instants/<instant>/aborted                 an abort was carried out: late files of the instant may still appear
    instants/<instant>/overtaken               what came before it though it was decided first: its rows count as not in
                                               the table, whether or not it was completed
    instants/<instant>/withdrawn               its rows were ingested again, so its dead letters came again too
    instants/<instant>/done                    the decision has been carried out
    aborted/<instant>                          it was aborted, and its other objects are gone: its late files are swept
    audited/<compaction>                       its plan was searched for our log files that it leaves out
    position/<instant>                         where it was when its instants were archived, and this was the newest
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.hudi.timeline.commit_metadata import WrittenFile
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.overtaking import Committed
from bucketingest.storage import (
    ObjectInfo,
    Storage,
    create_or_get,
    created,
    get_if_there,
    object_names,
    remove_directories,
)
from bucketingest.write.errors import FencedOut, PositionLost, WriteError
from bucketingest.write.instant_look import LOOK_MAX
from bucketingest.write.instants.records import (
    CLOSED,
    FORMAT_VERSION,
    CommitDecision,
    Decision,
    Intent,
    LedgerEntry,
    decision_bytes,
    decision_of,
    intent_bytes,
    intent_of,
    ledger_bytes,
    ledger_of,
)
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.pipeline_names import directory_name, instant_path
from bucketingest.write.record_format import complete, decode, encode

_Record = TypeVar("_Record")

ROOT: Final = OWN_DIRECTORY
KEPT_INSTANTS: Final = 10
"""Newest instants whose objects stay, however old."""
KEPT_FOR: Final = 3 * LOOK_MAX
"""How long an instant's objects stay after it is done. An attempt acts on no older look than `LOOK_MAX`, so it finds
the decision.
"""
_ABORTED_KEPT_LONGER: Final = 2
"""Those of an aborted one stay so many times longer, and it keeps an older instant on the timeline: the storage client
may be sending one of its files for a quarter of an hour after the look.
"""
KEPT_ABORTED: Final = 1000
"""Names of aborted instants that are remembered, so that a file is recognised which comes later than it can."""
KEPT_EPOCHS: Final = 10
KEPT_POSITIONS: Final = 2


class Journal:
    """Reads and writes the journal objects of one pipeline in one table."""

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage = storage
        self.pipeline = pipeline
        self._root = f"{ROOT}/{directory_name(pipeline)}"

    def claim_epoch(self, claimant: str) -> int:
        """Take the next epoch. Every attempt with a lower one is fenced out from now on."""
        epoch = max(self._epochs(), default=0) + 1
        claim = json.dumps({"claimant": claimant, "id": str(uuid.uuid4())}).encode()  # noqa: TID251 - names the claimant, decides nothing
        while True:
            if create_or_get(self._storage, self._epoch_path(epoch), claim) == claim:
                self._storage.delete_many(
                    [self._epoch_path(old) for old in self._epochs() if old <= epoch - KEPT_EPOCHS]
                )
                return epoch
            epoch += 1

    def check_epoch(self, epoch: int) -> None:
        """Raise FencedOut if a newer attempt has claimed the table."""
        newest = max(self._epochs(), default=epoch)
        if newest <= epoch:
            return
        claimant = json.loads(self._storage.get(self._epoch_path(newest)))["claimant"]
        raise FencedOut(
            f"{self._storage.url}: {claimant} claimed the pipeline after this attempt (epoch {newest} after {epoch}): "
            "this attempt stops and commits nothing; if both should run, give them different names and tables"
        )

    def keep_beginning(self, digest: str, content: bytes) -> None:
        """Record where the first start of a source began; the first record counts. `digest`: of what was configured."""
        created(self._storage, f"{self._root}/beginning/{digest}", content)

    def beginning(self, digest: str) -> bytes | None:
        """Where the first start began; None until it is recorded."""
        return get_if_there(self._storage, f"{self._root}/beginning/{digest}")

    def keep_letters_place(self, url: str) -> None:
        """Record a place of dead letters, before the first is staged there: the spec may name another one later."""
        digest = hashlib.sha256(url.encode()).hexdigest()
        created(self._storage, f"{self._root}/letters/{digest}", encode(FORMAT_VERSION, {"url": url}))

    def letters_places(self) -> list[str]:
        """URLs of all places where dead letters of the pipeline may be."""
        paths = [info.path for info in self._storage.list_level(f"{self._root}/letters").objects]
        records = ((path, decode(self._storage.get(path), path, FORMAT_VERSION)[0]) for path in paths)
        urls = []
        for path, record in records:
            with complete(path):
                urls.append(str(record["url"]))
        return urls

    def instants(self) -> list[str]:
        """Request times of the instants that have journal objects, ascending."""
        root = f"{self._root}/instants"
        return sorted([path[len(root) + 1 :] for path in self._storage.list_level(root).directories])

    def claim(self, instant: str, intent: Intent) -> bool:
        """Claim an instant by the intent of its first micro-batch; False if an attempt has claimed it, even with this
        intent.

        Two attempts that chose the same time must not both use it: one would roll back the other's instant.
        """
        return created(self._storage, self._path(instant, "intent/1"), intent_bytes(intent))

    def put_intent(self, instant: str, sequence: int, intent: Intent) -> None:
        """Record the rows of a further micro-batch of an instant, or of one that comes again, before any is written."""
        content, name = intent_bytes(intent), f"intent/{sequence}"
        existing = create_or_get(self._storage, self._path(instant, name), content)
        started = intent if existing == content else intent_of(existing, self._where(instant, name))
        if started is None:
            raise PositionLost(f"instant {instant} was closed for its commit before micro-batch {sequence} started")
        if not started.same_files_as(intent):
            raise WriteError(
                f"instant {instant}, micro-batch {sequence} was started with other rows: {existing.decode()}, "
                f"now {content.decode()}"
            )

    def put_plan(self, instant: str, digest: str, content: bytes) -> None:
        """Record a plan of an index with a state, named by its content; an intent then selects it."""
        created(self._storage, self._path(instant, f"assign/{digest}"), content)

    def plan(self, instant: str, digest: str) -> bytes | None:
        """The plan of this name."""
        return get_if_there(self._storage, self._path(instant, f"assign/{digest}"))

    def intent(self, instant: str, sequence: int) -> Intent | None:
        """The intent of a micro-batch that was started."""
        return self._read(instant, f"intent/{sequence}", intent_of)

    def close(self, instant: str, sequence: int) -> bool:
        """Take the name with which a further micro-batch would start, so that none can start once a commit is decided:
        its files would be visible by their names alone. False if one was started before.
        """
        name = f"intent/{sequence}"
        existing = create_or_get(self._storage, self._path(instant, name), CLOSED)
        return intent_of(existing, self._where(instant, name)) is None

    def put_ledger(self, instant: str, sequence: int, entry: LedgerEntry) -> LedgerEntry:
        """Record that every row of the micro-batch is in storage; returns what is recorded.

        That is another entry if another attempt was first: it names the same data files, but its own dead letters, and
        only recorded dead letters may be published.
        """
        content, name = ledger_bytes(entry), f"ledger/{sequence}"
        existing = create_or_get(self._storage, self._path(instant, name), content)
        return entry if existing == content else ledger_of(existing, self._where(instant, name))

    def ledger(self, instant: str, sequence: int) -> LedgerEntry | None:
        """What a micro-batch wrote, if it is complete."""
        return self._read(instant, f"ledger/{sequence}", ledger_of)

    def ledgers(self, instant: str) -> tuple[LedgerEntry, ...]:
        """Its complete micro-batches, from the first up to the first incomplete one. Read one by one, never listed: a
        listing may leave out the newest.
        """
        entries: list[LedgerEntry] = []
        while (entry := self.ledger(instant, len(entries) + 1)) is not None:
            entries.append(entry)
        return tuple(entries)

    def decide(self, instant: str, wanted: Decision) -> Decision:
        """Decide the instant, or read what was decided before. The answer is final."""
        content = decision_bytes(wanted)
        existing = create_or_get(self._storage, self._path(instant, "decision"), content)
        return wanted if existing == content else decision_of(existing, self._where(instant, "decision"))

    def decision(self, instant: str) -> Decision | None:
        """What was decided; None until then."""
        return self._read(instant, "decision", decision_of)

    def completion_time(self, instant: str) -> str | None:
        """When the instant was completed; None if it was not, or never will be."""
        decision = self.decision(instant)
        if not isinstance(decision, CommitDecision) or not self.is_done(instant) or self.is_aborted(instant):
            return None
        return decision.completion_time

    def mark_done(self, instant: str, *, aborted: bool = False) -> None:
        """Nothing is left to do for the instant, except to sweep it if it was aborted."""
        if aborted:
            created(self._storage, self._path(instant, "aborted"), b"")
        created(self._storage, self._path(instant, "done"), b"")

    def is_aborted(self, instant: str) -> bool:
        """Whether the instant was done by aborting it."""
        return self._storage.exists(self._path(instant, "aborted"))

    def mark_overtaken(self, instant: str, why: str) -> None:
        """The instant's rows count as not in the table from now on. The newest instant is recorded too: later instants
        started at the missing rows. An instant that was forgotten was done, and stays so.
        """
        if self.is_forgotten(instant):
            self.mark_done(instant)
        newest = max(self.instants(), default=instant)
        created(self._storage, self._path(instant, "overtaken"), json.dumps({"why": why, "newest": newest}).encode())

    def why_overtaken(self, instant: str) -> str:
        """What came before the instant."""
        return self._overtaken(instant, "why")

    def missing(self, objects_by_instant: Mapping[str, frozenset[str]]) -> set[str]:
        """The overtaken instants whose rows have not come again: no instant after the mark is done that still counts.
        `objects_by_instant`: of all.
        """
        closed = {time for time, objects in objects_by_instant.items() if "aborted" not in objects}
        overtaken = {time for time in closed if "overtaken" in objects_by_instant[time]}
        newest = max((time for time in closed - overtaken if "done" in objects_by_instant[time]), default="")
        # the newest instant at the mark may have been open: what completes it brings no rows again
        return {time for time in overtaken if newest <= self._overtaken(time, "newest")}

    def _overtaken(self, instant: str, field: str) -> str:
        return str(json.loads(get_if_there(self._storage, self._path(instant, "overtaken")) or b"{}").get(field, ""))

    def is_overtaken(self, instant: str) -> bool:
        """Whether the instant's rows count as not in the table."""
        return self._storage.exists(self._path(instant, "overtaken"))

    def mark_withdrawn(self, instant: str) -> None:
        """The instant's dead letters do not stay published from now on, even if a late request publishes them."""
        created(self._storage, self._path(instant, "withdrawn"), b"")

    def letters_come_again(self, instant: str) -> bool:
        """Whether the instant's dead letters come again in a later instant, with its rows."""
        return self.is_overtaken(instant) or self._storage.exists(self._path(instant, "withdrawn"))

    def archived(self, active: Collection[str]) -> Iterator[Committed]:
        """The committed instants that are not among the active ones, as far as the journal still has them."""
        for instant, objects in self.objects_by_instant().items():
            if instant not in active and {"done", "decision"} <= objects and "aborted" not in objects:
                decision = self.decision(instant)
                if isinstance(decision, CommitDecision):
                    yield Committed(instant, decision.completion_time, partial(self.files, instant))

    def files(self, instant: str) -> list[WrittenFile]:
        """What the instant's micro-batches wrote, as far as the journal still has it."""
        statuses = (status for entry in self.ledgers(instant) for status in entry.statuses if status.file_id)
        return [WrittenFile(status.partition_path, status.file_id, status.file_name) for status in statuses]

    def audited(self) -> set[str]:
        """Request times of the compactions whose plans were audited."""
        return set(self._names("audited"))

    def mark_audited(self, compactions: Iterable[str], gone: Iterable[str]) -> None:
        """Record that the plans of compactions were audited, and delete the records of those that no look needs."""
        for compaction in compactions:
            created(self._storage, f"{self._root}/audited/{compaction}", b"")
        self._storage.delete_many([f"{self._root}/audited/{compaction}" for compaction in gone])

    def is_forgotten(self, instant: str) -> bool:
        """Whether no object of the instant is left."""
        return next(iter(self._storage.list(self._path(instant, ""))), None) is None

    def objects_by_instant(self) -> dict[str, frozenset[str]]:
        """The names of each instant's objects, instants ascending, from one listing."""
        return {instant: frozenset(times) for instant, times in self.times_by_instant().items()}

    def times_by_instant(self) -> dict[str, dict[str, datetime]]:
        """The same names, each with the time at which the object was made, by the storage's clock."""
        prefix = f"{self._root}/instants/"
        times: dict[str, dict[str, datetime]] = {}
        for info in self._storage.list(prefix.rstrip("/")):
            instant, _, name = info.path.removeprefix(prefix).partition("/")
            times.setdefault(instant, {})[name] = info.modified
        return {instant: times[instant] for instant in sorted(times)}

    def forgettable(self, now: datetime) -> dict[str, Collection[str]]:
        """Instants that are done for so long, by the storage's clock, that no attempt needs their objects any more; and
        the names of these. An overtaken one only when its rows have come again: until then only its mark says so.
        """
        oldest_kept, latest = format_time(now - KEPT_FOR), format_time(now)
        found: dict[str, Collection[str]] = {}
        for instant in self.instants()[:-KEPT_INSTANTS]:
            if oldest_kept <= instant <= latest:
                break
            objects = {name: info.modified for name, info in self._objects(instant).items()}
            kept_for = (_ABORTED_KEPT_LONGER if "aborted" in objects else 1) * KEPT_FOR
            ended = [objects[name] for name in ("done", "overtaken") if name in objects]
            if "done" in objects and now - max(ended) >= kept_for:
                found[instant] = objects.keys()
            elif instant > latest:  # the times of a table that is ahead of the clock say nothing, but their order does
                break
        if any("overtaken" in objects for objects in found.values()):
            for instant in self.missing(self.objects_by_instant()) & found.keys():
                del found[instant]
        return found

    def _objects(self, instant: str) -> dict[str, ObjectInfo]:
        directory = self._path(instant, "")
        return {info.path.removeprefix(f"{directory}/"): info for info in self._storage.list(directory)}

    def aborted(self) -> list[str]:
        """Request times of the aborted instants whose other objects are gone, ascending."""
        return self._names("aborted")

    def keep_position(self, instant: str, position: SourceRange) -> None:
        """Record the position as of its newest instant, so that the instants of a pipeline that has ended can be
        archived: an instant's other objects go after a while, and its completed file with the archival.
        """
        created(self._storage, f"{self._root}/position/{instant}", encode(FORMAT_VERSION, position.to_json()))
        self._storage.delete_many([f"{self._root}/position/{old}" for old in self._names("position")[:-KEPT_POSITIONS]])

    def kept_position(self) -> tuple[str, SourceRange] | None:
        """The newest recorded position, and its instant; None if there is none."""
        for instant in reversed(self._names("position")):
            path = f"{self._root}/position/{instant}"
            if (content := get_if_there(self._storage, path)) is not None:
                return instant, SourceRange.from_json(decode(content, f"{self._storage.url}/{path}", FORMAT_VERSION)[0])
        return None

    def is_done(self, instant: str) -> bool:
        """Whether the instant's decision has been carried out."""
        return self._storage.exists(self._path(instant, "done"))

    def forget(self, instants: Iterable[str]) -> None:
        """Delete the objects of instants. What a crash leaves still says that they need no work.

        `done` is deleted last: without it the decision would be carried out again, and without the decision the intents
        would count as open. The names of aborted ones are kept before.
        """
        for instant in instants:
            objects, last = self._objects(instant), ("decision", "aborted", "overtaken", "done")
            if "aborted" in objects:
                created(self._storage, f"{self._root}/aborted/{instant}", b"")
                self._storage.delete_many([f"{self._root}/aborted/{old}" for old in self.aborted()[:-KEPT_ABORTED]])
            self._storage.delete_many([info.path for name, info in objects.items() if name not in last])
            for name in last:
                self._storage.delete(self._path(instant, name))
            remove_directories(self._storage, self._path(instant, "").rstrip("/"))

    def _epochs(self) -> list[int]:
        return [int(name) for name in self._names("epoch") if name.isdigit()]

    def _names(self, folder: str) -> list[str]:
        return sorted(object_names(self._storage, f"{self._root}/{folder}"))

    def _epoch_path(self, epoch: int) -> str:
        return f"{self._root}/epoch/{epoch:08d}"

    def _path(self, instant: str, name: str) -> str:
        return instant_path(self.pipeline, instant, name)

    def _where(self, instant: str, name: str) -> str:
        return f"{self._storage.url}/{self._path(instant, name)}"

    def _read(self, instant: str, name: str, decode: Callable[[bytes, str], _Record]) -> _Record | None:
        content = get_if_there(self._storage, self._path(instant, name))
        return None if content is None else decode(content, self._where(instant, name))
