"""What attempts of a pipeline record about an instant for each other, and the bytes of these records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bucketingest.hudi.errors import InvalidTable
from bucketingest.write.errors import NewerFormat
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus

FORMAT_VERSION: Final = 1
"""Counts up whenever an older release would misread a record. Fields that a release does not know are ignored."""
CLOSED: Final = json.dumps({"version": FORMAT_VERSION, "closed": True}).encode()
"""In place of a further intent: no micro-batch may start in the instant any more."""


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The instant completes with exactly this time and these bytes, whichever process writes them."""

    completion_time: str
    content: bytes


@dataclass(frozen=True, slots=True)
class AbortDecision:
    """The instant never completes."""

    reason: str


Decision = CommitDecision | AbortDecision


@dataclass(frozen=True, slots=True)
class Intent:
    """What a micro-batch will write."""

    source_range: SourceRange
    work: str
    """Fingerprint of everything that decides which rows its tasks put under which names: SQL, schema, file ids, number
    of tasks. With another one, files of the first tasks would stay next to those of the next, and the commit would make
    both visible."""
    letters_url: str | None = None
    """Where its dead letters are staged, and published from, even if the spec changes later."""

    plan: str | None = None
    """With a state: names the record of where each key goes. A retry repeats it, so it need not be equal."""

    def same_files_as(self, other: Intent) -> bool:
        """Whether both put the same rows under the same names."""
        return self.work == other.work and self.source_range.same_rows_as(other.source_range)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A micro-batch whose rows are all in storage."""

    source_range: SourceRange
    statuses: tuple[WriteStatus, ...]
    bucket_rules: str = ""
    """Instant of the bucket rules by which its rows were placed; "" without rules."""


def intent_bytes(intent: Intent) -> bytes:
    """As it is stored: JSON."""
    record = {"range": intent.source_range.to_json(), "fileIds": intent.work, "letters": intent.letters_url}
    if intent.plan is not None:
        record["plan"] = intent.plan
    return json.dumps({"version": FORMAT_VERSION} | record).encode()


def intent_of(content: bytes, where: str) -> Intent | None:
    """The intent that `intent_bytes` stored; None for `CLOSED`. Raises NewerFormat and InvalidTable."""
    record = _record(content, where)
    if record.get("closed"):
        return None
    with _complete(where):
        source_range = SourceRange.from_json(record["range"])
        return Intent(source_range, record["fileIds"], record.get("letters"), record.get("plan"))


def ledger_bytes(entry: LedgerEntry) -> bytes:
    """As it is stored: JSON."""
    statuses = [status.to_json() for status in entry.statuses]
    rules = {"bucketRules": entry.bucket_rules} if entry.bucket_rules else {}
    record = {"version": FORMAT_VERSION, "range": entry.source_range.to_json(), "statuses": statuses}
    return json.dumps(record | rules).encode()


def ledger_of(content: bytes, where: str) -> LedgerEntry:
    """The entry that `ledger_bytes` stored. Raises NewerFormat and InvalidTable."""
    record = _record(content, where)
    with _complete(where):
        statuses = tuple(map(WriteStatus.from_json, record["statuses"]))
        return LedgerEntry(SourceRange.from_json(record["range"]), statuses, record.get("bucketRules", ""))


def decision_bytes(decision: Decision) -> bytes:
    """As it is stored: a line of JSON, then the content of the completed file."""
    if isinstance(decision, AbortDecision):
        return json.dumps({"version": FORMAT_VERSION, "decision": "abort", "reason": decision.reason}).encode() + b"\n"
    header = {
        "version": FORMAT_VERSION,
        "decision": "commit",
        "completionTime": decision.completion_time,
        "bytes": len(decision.content),
    }
    return json.dumps(header).encode() + b"\n" + decision.content


def decision_of(content: bytes, where: str) -> Decision:
    """The decision that `decision_bytes` stored. Raises NewerFormat and InvalidTable."""
    line, _, rest = content.partition(b"\n")
    header = _record(line, where)
    with _complete(where):
        if header["decision"] == "abort":
            return AbortDecision(header["reason"])
        if header["bytes"] != len(rest):
            raise ValueError(f"{header['bytes']} bytes were written, {len(rest)} are there")
        return CommitDecision(header["completionTime"], rest)


def _record(content: bytes, where: str) -> dict[str, Any]:
    with _complete(where):
        record: dict[str, Any] = json.loads(content)
        version = record.get("version", FORMAT_VERSION)
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{where} was written by a newer release of bucketingest (format {version}, this release knows "
            f"{FORMAT_VERSION}): run the pipeline with that release"
        )
    return record


@contextmanager
def _complete(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTable(
            f"{where} cannot be read ({type(error).__name__}: {error}): it was changed after it was written. Restore "
            "this object; without it nobody knows which rows are in the table"
        ) from error
