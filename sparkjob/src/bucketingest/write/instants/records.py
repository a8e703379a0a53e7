"""What attempts of a pipeline record about an instant for each other, and the bytes of these records."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus


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
    return json.dumps(record).encode()


def intent_of(content: bytes) -> Intent:
    """The intent that `intent_bytes` stored."""
    record = json.loads(content)
    return Intent(SourceRange.from_json(record["range"]), record["fileIds"], record.get("letters"), record.get("plan"))


def ledger_bytes(entry: LedgerEntry) -> bytes:
    """As it is stored: JSON."""
    statuses = [status.to_json() for status in entry.statuses]
    rules = {"bucketRules": entry.bucket_rules} if entry.bucket_rules else {}
    return json.dumps({"range": entry.source_range.to_json(), "statuses": statuses} | rules).encode()


def ledger_of(content: bytes) -> LedgerEntry:
    """The entry that `ledger_bytes` stored."""
    record = json.loads(content)
    return LedgerEntry(
        SourceRange.from_json(record["range"]),
        tuple(WriteStatus(**status) for status in record["statuses"]),
        record.get("bucketRules", ""),
    )


def decision_bytes(decision: Decision) -> bytes:
    """As it is stored: a line of JSON, then the content of the completed file."""
    if isinstance(decision, AbortDecision):
        return json.dumps({"decision": "abort", "reason": decision.reason}).encode() + b"\n"
    header = {"decision": "commit", "completionTime": decision.completion_time, "bytes": len(decision.content)}
    return json.dumps(header).encode() + b"\n" + decision.content


def decision_of(content: bytes) -> Decision:
    """The decision that `decision_bytes` stored."""
    line, _, rest = content.partition(b"\n")
    header = json.loads(line)
    if header["decision"] == "abort":
        return AbortDecision(header["reason"])
    assert header["bytes"] == len(rest), "create-if-absent is atomic: a decision is complete or absent"
    return CommitDecision(header["completionTime"], rest)
