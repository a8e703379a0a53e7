"""What attempts of a pipeline record about an instant for each other, and the bytes of these records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.record_format import complete, decode, encode
from bucketingest.write.rows.write_status import WriteStatus

FORMAT_VERSION: Final = 1
"""Counts up whenever an older release would misread a record. Fields that a release does not know are ignored."""
CLOSED: Final = encode(FORMAT_VERSION, {"closed": True})
"""In place of a further intent: no micro-batch may start in the instant any more."""


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What was begun completes with exactly this time and these bytes, whichever process writes them."""

    completion_time: str
    content: bytes


@dataclass(frozen=True, slots=True)
class AbortDecision:
    """It never completes."""

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
    """As it is stored."""
    record = {"range": intent.source_range.to_json(), "fileIds": intent.work, "letters": intent.letters_url}
    return encode(FORMAT_VERSION, record | ({} if intent.plan is None else {"plan": intent.plan}))


def intent_of(content: bytes, where: str) -> Intent | None:
    """The intent that `intent_bytes` stored; None for `CLOSED`. Raises NewerFormat and InvalidTable."""
    record, _ = decode(content, where, FORMAT_VERSION)
    if record.get("closed"):
        return None
    with complete(where):
        source_range = SourceRange.from_json(record["range"])
        return Intent(source_range, record["fileIds"], record.get("letters"), record.get("plan"))


def ledger_bytes(entry: LedgerEntry) -> bytes:
    """As it is stored."""
    record = {"range": entry.source_range.to_json(), "statuses": [status.to_json() for status in entry.statuses]}
    return encode(FORMAT_VERSION, record | ({"bucketRules": entry.bucket_rules} if entry.bucket_rules else {}))


def ledger_of(content: bytes, where: str) -> LedgerEntry:
    """The entry that `ledger_bytes` stored. Raises NewerFormat and InvalidTable."""
    record, _ = decode(content, where, FORMAT_VERSION)
    with complete(where):
        statuses = tuple(map(WriteStatus.from_json, record["statuses"]))
        return LedgerEntry(SourceRange.from_json(record["range"]), statuses, record.get("bucketRules", ""))


def decision_bytes(decision: Decision) -> bytes:
    """As it is stored, with the content of the completed file."""
    if isinstance(decision, AbortDecision):
        return encode(FORMAT_VERSION, {"decision": "abort", "reason": decision.reason})
    fields = {"decision": "commit", "completionTime": decision.completion_time}
    return encode(FORMAT_VERSION, fields, decision.content)


def decision_of(content: bytes, where: str) -> Decision:
    """The decision that `decision_bytes` stored. Raises NewerFormat and InvalidTable."""
    header, rest = decode(content, where, FORMAT_VERSION)
    with complete(where):
        if header["decision"] == "abort":
            return AbortDecision(header["reason"])
        return CommitDecision(header["completionTime"], rest)
