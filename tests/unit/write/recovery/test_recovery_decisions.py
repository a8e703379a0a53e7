"""What happens to an instant that an attempt left: every combination of facts in storage."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from bucketingest.hudi.timeline.instant import State
from bucketingest.write.instants.records import AbortDecision, CommitDecision, Decision, Intent, LedgerEntry
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.recovery.decide import Policy, Step, decide
from bucketingest.write.recovery.facts import Facts

RANGE = SourceRange("kafka", None, '{"t":{"0":5}}', "q", 0)
INTENT = Intent(RANGE, "work")
LEDGER = LedgerEntry(RANGE, ())
COMMIT = CommitDecision("20261121080001000", b"")
ABORT = AbortDecision("a reason")
PLACES: dict[str, dict[str, Any]] = {
    "pending": {"state": State.INFLIGHT},
    "requested": {"state": State.REQUESTED},
    "completed": {"state": State.COMPLETED},
    "archived": {"archived": True},
    "gone": {},
}


def found(
    decision: Decision | None = None,
    started: Intent | None = None,
    ledger: LedgerEntry | None = None,
    *,
    place: str = "pending",
    **more: Any,
) -> Facts:
    ledgers = () if ledger is None else (ledger,)
    return Facts(
        "20261121080000000",
        pipeline="shop/orders",
        decision=decision,
        started=started,
        ledgers=ledgers,
        **(PLACES[place] | more),
    )


@pytest.mark.parametrize(
    ("instant", "resume", "roll_back", "why"),
    [
        (found(ABORT), Step.ROLL_BACK, Step.ROLL_BACK, "it was decided to abort: a reason"),
        (
            found(started=INTENT, ledger=LEDGER, behind_archive=True),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "newer instants were archived before it was on the timeline",
        ),
        (found(COMMIT, ledger=LEDGER), Step.COMPLETE, Step.COMPLETE, "it was decided to commit"),
        (
            found(COMMIT, ledger=LEDGER, overtaken_by="compaction 20261121080002000"),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "it was decided to commit at 20261121080001000, and compaction 20261121080002000 came before it",
        ),
        (found(COMMIT, place="archived"), Step.CLOSE, Step.CLOSE, "it is complete and archived"),
        (found(COMMIT, place="completed"), Step.CLOSE, Step.CLOSE, "it is complete"),
        (found(COMMIT, place="completed", overtaken_by="a commit"), Step.CLOSE, Step.CLOSE, "it is complete"),
        (
            found(COMMIT, rolled_back=True),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "it was decided to commit, but another writer rolled it back",
        ),
        (
            found(COMMIT, place="gone"),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "it was decided to commit, but another writer rolled it back",
        ),
        (
            found(COMMIT, place="completed", rolled_back=True),
            Step.CLOSE,
            Step.CLOSE,
            "it is complete, and a rollback that came too late deleted its files",
        ),
        (found(ledger=LEDGER), Step.COMPLETE, Step.ROLL_BACK, "all its rows are in storage"),
        (found(ledger=LEDGER, place="completed"), Step.CLOSE, Step.CLOSE, "it is complete"),
        (found(started=INTENT), Step.RESUME, Step.ROLL_BACK, "a micro-batch of it was started"),
        (found(started=INTENT, ledger=LEDGER), Step.RESUME, Step.ROLL_BACK, "a micro-batch of it was started"),
        (found(), Step.ROLL_BACK, Step.ROLL_BACK, "no micro-batch of it was started"),
        (
            found(started=INTENT, place="gone"),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "another writer rolled it back, or it was never on the timeline",
        ),
        (
            found(ledger=LEDGER, rollbacks=("20261121080500000",)),
            Step.ROLL_BACK,
            Step.ROLL_BACK,
            "another writer rolled it back, or it was never on the timeline",
        ),
    ],
)
def test_each_case_has_its_step_and_reason(instant: Facts, resume: Step, roll_back: Step, why: str) -> None:
    choice = decide(instant, Policy.RESUME)
    assert (choice.step, choice.reason) == (resume, why)
    assert decide(instant, Policy.ROLL_BACK).step is roll_back


EVERYTHING = [
    found(decision, started, ledger, place=place, rolled_back=rolled_back, rollbacks=rollbacks, overtaken_by=overtaken)
    for decision, started, ledger, place, rolled_back, rollbacks, overtaken in product(
        (None, COMMIT, ABORT), (None, INTENT), (None, LEDGER), PLACES, (False, True), ((), ("r",)), (None, "c")
    )
]


@pytest.mark.parametrize("policy", Policy)
def test_every_combination_follows_the_protocol(policy: Policy) -> None:
    for instant in EVERYTHING:
        step = decide(instant, policy).step
        taken = instant.rolled_back or bool(instant.rollbacks)
        stands = instant.state is not None and not taken
        if isinstance(instant.decision, AbortDecision):
            assert step is Step.ROLL_BACK
        elif instant.state is State.COMPLETED and instant.rollbacks and isinstance(instant.decision, CommitDecision):
            assert step is (Step.ROLL_BACK if policy is Policy.RESUME else Step.CLOSE), "some of its files are gone"
        elif instant.state is State.COMPLETED or instant.archived:
            assert step is Step.CLOSE, "readers have seen it"
        elif isinstance(instant.decision, CommitDecision):
            assert step is not Step.RESUME
            assert (step is Step.COMPLETE) == (stands and instant.overtaken_by is None)
        else:
            assert step is not Step.CLOSE
            assert (step is Step.COMPLETE) == (
                policy is Policy.RESUME and stands and bool(instant.ledgers) and instant.started is None
            )
            assert step is not Step.RESUME or (policy is Policy.RESUME and stands and instant.started is not None)
