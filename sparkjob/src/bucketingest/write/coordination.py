"""The objects by which attempts of a pipeline agree about an instant: epochs, intents, ledger entries, and the
decision.

They lie in `.hoodie/.bucketingest/<pipeline>/`, where neither readers nor Hudi's writers look. All are created if
absent, so of two attempts exactly one decides, and the other learns what was decided.

    epoch/<n>                                  claimed by each attempt at its start
    beginning/<digest>                         where a source that was to begin at its end began, for the next start
    instants/<instant>/intent/<sequence>       the source range of a micro-batch, before its tasks start; or, after the
                                               last one, that no further may begin
    instants/<instant>/ledger/<sequence>       what its tasks wrote, after all have reported
    instants/<instant>/decision                commit (completion time, bytes of the completed file) or abort (why)
    instants/<instant>/aborted                 what was carried out is an abort: late files of it may still come
    instants/<instant>/done                    the decision has been carried out
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bucketingest.hudi.instant import format_time
from bucketingest.storage import AlreadyExists, NotFound, Storage
from bucketingest.write.errors import FencedOut, PositionLost, WriteError
from bucketingest.write.source_range import SourceRange
from bucketingest.write.write_status import WriteStatus

ROOT: Final = ".hoodie/.bucketingest"
KEPT_INSTANTS: Final = 10
"""Newest instants whose objects stay, however old."""
KEPT_FOR: Final = timedelta(minutes=15)
"""Age up to which an instant's objects stay: an attempt that was stopped for a while must still find the decision, or
it would decide anew, and late files of an aborted instant must still be swept.
"""
KEPT_EPOCHS: Final = 10


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The instant completes with exactly this time and these bytes, whoever writes them."""

    completion_time: str
    content: bytes


@dataclass(frozen=True, slots=True)
class AbortDecision:
    """The instant never completes."""

    reason: str


Decision = CommitDecision | AbortDecision

_CLOSED: Final = b'{"closed": true}'


@dataclass(frozen=True, slots=True)
class Intent:
    """What a micro-batch is going to write."""

    source_range: SourceRange
    file_ids: str
    """Fingerprint of the file ids that its tasks are told. With others, the files of the first tasks would stay beside
    those of the next, and the commit would make both visible."""

    def same_files_as(self, other: Intent) -> bool:
        """Whether both put the same rows under the same names."""
        return self.file_ids == other.file_ids and self.source_range.same_rows_as(other.source_range)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A micro-batch whose rows are all in storage."""

    source_range: SourceRange
    statuses: tuple[WriteStatus, ...]


class Coordination:
    """Reads and writes the coordination objects of one pipeline in one table."""

    def __init__(self, storage: Storage, pipeline: str) -> None:
        self._storage = storage
        self.pipeline = pipeline
        self._root = f"{ROOT}/{directory_name(pipeline)}"

    def claim_epoch(self, claimant: str) -> int:
        """Take the next epoch. Every attempt with a lower one is fenced out from now on."""
        epoch = max(self._epochs(), default=0) + 1
        claim = json.dumps({"claimant": claimant, "id": str(uuid.uuid4())}).encode()
        while True:
            if self._create(self._epoch_path(epoch), claim) is None:
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
        """Keep where the first start of a source began; the first to say it is right. `digest`: of what was asked."""
        self._create(f"{self._root}/beginning/{digest}", content)

    def beginning(self, digest: str) -> bytes | None:
        """Where the first start began; None while nobody knows."""
        return self._get(f"{self._root}/beginning/{digest}")

    def instants(self) -> list[str]:
        """Request times of the instants that have coordination objects, ascending."""
        directories = self._storage.list_level(f"{self._root}/instants").directories
        return sorted(path.rpartition("/")[2] for path in directories)

    def claim(self, instant: str, intent: Intent) -> bool:
        """Take an instant by the intent of its first micro-batch; False if any attempt has, this very intent too.

        Two attempts that chose one time must not both go on with it: what one takes back would be the other's.
        """
        try:
            self._storage.create(self._path(instant, "intent/1"), _encoded(intent))
        except AlreadyExists:
            return False
        return True

    def put_intent(self, instant: str, sequence: int, intent: Intent) -> None:
        """Say which rows a further micro-batch of an instant, or one that comes again, consists of, before any is
        written.
        """
        content = _encoded(intent)
        existing = self._create(self._path(instant, f"intent/{sequence}"), content)
        if existing == _CLOSED:
            raise PositionLost(f"instant {instant} was closed for its commit before micro-batch {sequence} began")
        if existing is not None and not _intent_of(existing).same_files_as(intent):
            raise WriteError(
                f"instant {instant}, micro-batch {sequence} was begun with other rows: {existing.decode()}, "
                f"now {content.decode()}"
            )

    def intent(self, instant: str, sequence: int) -> Intent | None:
        """What a micro-batch that was begun is."""
        content = self._get(self._path(instant, f"intent/{sequence}"))
        return None if content is None or content == _CLOSED else _intent_of(content)

    def close(self, instant: str, sequence: int) -> bool:
        """Take the name by which a further micro-batch would begin, so that none can once a commit is decided: its
        files would be visible by their names alone. False if one was begun before.
        """
        existing = self._create(self._path(instant, f"intent/{sequence}"), _CLOSED)
        return existing is None or existing == _CLOSED

    def put_ledger(self, instant: str, sequence: int, entry: LedgerEntry) -> LedgerEntry:
        """Record that every row of the micro-batch is in storage; returns what is recorded.

        That is another entry where another attempt was first: it names the same data files, but dead letters of its
        own, and only those that are recorded may ever be published.
        """
        record: dict[str, Any] = {
            "range": entry.source_range.to_json(),
            "statuses": [status.to_json() for status in entry.statuses],
        }
        existing = self._create(self._path(instant, f"ledger/{sequence}"), json.dumps(record).encode())
        return entry if existing is None else _ledger_of(existing)

    def ledger(self, instant: str, sequence: int) -> LedgerEntry | None:
        """What a micro-batch wrote, if all of it did."""
        content = self._get(self._path(instant, f"ledger/{sequence}"))
        return None if content is None else _ledger_of(content)

    def ledgers(self, instant: str) -> tuple[LedgerEntry, ...]:
        """Its micro-batches that are whole, from the first up to the first that is not. Read one by one, never listed:
        a listing may leave out the newest.
        """
        entries: list[LedgerEntry] = []
        while (entry := self.ledger(instant, len(entries) + 1)) is not None:
            entries.append(entry)
        return tuple(entries)

    def decide(self, instant: str, wanted: Decision) -> Decision:
        """Decide the instant, or learn what was decided before. The answer is final."""
        existing = self._create(self._path(instant, "decision"), _decision_bytes(wanted))
        return wanted if existing is None else _decision_of(existing)

    def decision(self, instant: str) -> Decision | None:
        """What was decided; None as long as nothing was."""
        content = self._get(self._path(instant, "decision"))
        return None if content is None else _decision_of(content)

    def mark_done(self, instant: str, *, aborted: bool = False) -> None:
        """Nothing is left to do for the instant, but to sweep it if it was aborted."""
        if aborted:
            self._create(self._path(instant, "aborted"), b"")
        self._create(self._path(instant, "done"), b"")

    def is_aborted(self, instant: str) -> bool:
        """Whether the instant was done by aborting it."""
        return self._storage.exists(self._path(instant, "aborted"))

    def standing(self) -> dict[str, frozenset[str]]:
        """For each instant, ascending, the names of its objects, from one listing."""
        prefix = f"{self._root}/instants/"
        names: dict[str, set[str]] = {}
        for info in self._storage.list(prefix.rstrip("/")):
            instant, _, name = info.path.removeprefix(prefix).partition("/")
            names.setdefault(instant, set()).add(name)
        return {instant: frozenset(names[instant]) for instant in sorted(names)}

    def forgettable(self, now: datetime) -> list[str]:
        """Instants whose objects no attempt can need any more."""
        oldest_kept = format_time(now - KEPT_FOR)
        return [instant for instant in self.instants()[:-KEPT_INSTANTS] if instant < oldest_kept]

    def is_done(self, instant: str) -> bool:
        """Whether the instant's decision has been carried out."""
        return self._storage.exists(self._path(instant, "done"))

    def forget(self, instants: Iterable[str]) -> None:
        """Delete the objects of instants. Whatever a crash leaves still says that nothing is to be done for them.

        Of an instant that was carried out, `done` goes last; without it the decision would be carried out again, and
        without the decision its intents would count as open.
        """
        for instant in instants:
            last = [self._path(instant, name) for name in ("decision", "aborted", "done")]
            others = [info.path for info in self._storage.list(self._path(instant, "")) if info.path not in last]
            self._storage.delete_many(others)
            for path in last:
                self._storage.delete(path)

    def _epochs(self) -> list[int]:
        objects = self._storage.list_level(f"{self._root}/epoch").objects
        return [int(name) for name in (info.path.rpartition("/")[2] for info in objects) if name.isdigit()]

    def _epoch_path(self, epoch: int) -> str:
        return f"{self._root}/epoch/{epoch:08d}"

    def _path(self, instant: str, name: str) -> str:
        return f"{self._root}/instants/{instant}/{name}".rstrip("/")

    def _get(self, path: str) -> bytes | None:
        try:
            return self._storage.get(path)
        except NotFound:
            return None

    def _create(self, path: str, content: bytes) -> bytes | None:
        """Create the object; None if it holds our content now, else what it holds.

        A create whose answer was lost finds its own object when tried again: equal content is success.
        """
        try:
            self._storage.create(path, content)
        except AlreadyExists:
            existing = self._storage.get(path)
            return None if existing == content else existing
        return None


def directory_name(pipeline: str) -> str:
    """A pipeline's name as one directory level: namespace/name becomes namespace~name; no Kubernetes name has a ~."""
    return "lease~" if pipeline == "lease" else pipeline.replace("/", "~")  # the table's lease has that name


def _encoded(intent: Intent) -> bytes:
    return json.dumps({"range": intent.source_range.to_json(), "fileIds": intent.file_ids}).encode()


def _intent_of(content: bytes) -> Intent:
    record = json.loads(content)
    return Intent(SourceRange.from_json(record["range"]), record["fileIds"])


def _ledger_of(content: bytes) -> LedgerEntry:
    record = json.loads(content)
    return LedgerEntry(
        SourceRange.from_json(record["range"]), tuple(WriteStatus(**status) for status in record["statuses"])
    )


def _decision_bytes(decision: Decision) -> bytes:
    if isinstance(decision, AbortDecision):
        return json.dumps({"decision": "abort", "reason": decision.reason}).encode() + b"\n"
    header = {"decision": "commit", "completionTime": decision.completion_time, "bytes": len(decision.content)}
    return json.dumps(header).encode() + b"\n" + decision.content


def _decision_of(content: bytes) -> Decision:
    line, _, rest = content.partition(b"\n")
    header = json.loads(line)
    if header["decision"] == "abort":
        return AbortDecision(header["reason"])
    assert header["bytes"] == len(rest), "create-if-absent is atomic: a decision is there whole or not at all"
    return CommitDecision(header["completionTime"], rest)
