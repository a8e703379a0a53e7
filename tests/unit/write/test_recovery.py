"""The verdict about an instant found at the start: every combination of what storage can tell."""

from __future__ import annotations

from itertools import product

import pytest

from bucketingest.write.coordination import AbortDecision, CommitDecision, Decision, Intent, LedgerEntry
from bucketingest.write.recovery import FoundInstant, Verdict, verdict
from bucketingest.write.source_range import SourceRange

RANGE = SourceRange("kafka", None, '{"t":{"0":5}}', "q", 0)
INTENT = Intent(RANGE, "file ids")
LEDGER = LedgerEntry(RANGE, ())
COMMIT = CommitDecision("20261121080001000", b"")
ABORT = AbortDecision("a reason")


def found(
    decision: Decision | None = None,
    begun: Intent | None = None,
    ledger: LedgerEntry | None = None,
    *,
    place: str = "timeline",
    rolled_back: bool = False,
) -> FoundInstant:
    return FoundInstant(
        request_time="20261121080000000",
        on_timeline=place in {"timeline", "completed"},
        completed=place == "completed",
        archived=place == "archived",
        rolled_back=rolled_back,
        decision=decision,
        ledgers=() if ledger is None else (ledger,),
        begun=begun,
    )


@pytest.mark.parametrize(
    ("instant", "expected", "why"),
    [
        (found(ABORT), Verdict.ABORT, "it was decided to abort: a reason"),
        (found(COMMIT, ledger=LEDGER), Verdict.COMMIT, "it was decided to commit"),
        (found(COMMIT, ledger=LEDGER, place="archived"), Verdict.FORGET, "it was decided to commit and is archived"),
        (
            found(COMMIT, ledger=LEDGER, rolled_back=True),
            Verdict.UNDO,
            "it was decided to commit, but another writer rolled it back",
        ),
        (
            found(COMMIT, ledger=LEDGER, place="gone"),
            Verdict.UNDO,
            "it was decided to commit, but another writer rolled it back",
        ),
        (found(ledger=LEDGER), Verdict.COMMIT, "all its rows are in storage"),
        (
            found(ledger=LEDGER, place="completed"),
            Verdict.FORGET,
            "it is complete, and its decision was forgotten",
        ),
        (
            found(COMMIT, ledger=LEDGER, place="completed", rolled_back=True),
            Verdict.FORGET,
            "it is complete, and a rollback of it that came too late took its files",
        ),
        (found(begun=INTENT), Verdict.RESUME, "a micro-batch of it was begun"),
        (found(begun=INTENT, ledger=LEDGER), Verdict.RESUME, "a micro-batch of it was begun"),
        (found(), Verdict.ABORT, "nothing was begun in it"),
        (
            found(begun=INTENT, place="gone"),
            Verdict.ABORT,
            "another writer rolled it back, or it never got onto the timeline",
        ),
        (
            found(ledger=LEDGER, rolled_back=True),
            Verdict.ABORT,
            "another writer rolled it back, or it never got onto the timeline",
        ),
    ],
)
def test_each_case_has_its_verdict_and_reason(instant: FoundInstant, expected: Verdict, why: str) -> None:
    assert verdict(instant) == (expected, why)


PLACES = ("timeline", "completed", "archived", "gone")
EVERYTHING = [
    found(decision, begun, ledger, place=place, rolled_back=rolled_back)
    for decision, begun, ledger, place, rolled_back in product(
        (None, COMMIT, ABORT), (None, INTENT), (None, LEDGER), PLACES, (False, True)
    )
]


def expected_verdict(instant: FoundInstant) -> Verdict:
    """The protocol once more, as a table: decision first, then what others did, then how far it came."""
    intact = instant.on_timeline and not instant.rolled_back
    archived = instant.archived and not instant.rolled_back
    match instant.decision:
        case AbortDecision():
            return Verdict.ABORT
        case CommitDecision():
            late = instant.completed and instant.rolled_back
            return Verdict.COMMIT if intact else Verdict.FORGET if archived or late else Verdict.UNDO
    if instant.completed:
        return Verdict.FORGET
    if not intact:
        return Verdict.ABORT
    return Verdict.RESUME if instant.begun else Verdict.COMMIT if instant.ledgers else Verdict.ABORT


@pytest.mark.parametrize("instant", EVERYTHING)
def test_all_combinations_follow_the_protocol(instant: FoundInstant) -> None:
    assert verdict(instant)[0] is expected_verdict(instant)


@pytest.mark.parametrize("instant", [one for one in EVERYTHING if one.decision is None])
def test_nothing_undecided_is_committed_without_its_ledger_entry(instant: FoundInstant) -> None:
    if not instant.ledgers:
        assert verdict(instant)[0] is not Verdict.COMMIT


@pytest.mark.parametrize("instant", [one for one in EVERYTHING if one.decision == COMMIT])
def test_a_decided_commit_is_never_aborted(instant: FoundInstant) -> None:
    assert verdict(instant)[0] in {Verdict.COMMIT, Verdict.FORGET, Verdict.UNDO}
