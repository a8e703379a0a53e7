"""What happens to a merge that a process left."""

from __future__ import annotations

import itertools

import pytest

from bucketingest.services.clustering.decide import Facts, Step, decide
from bucketingest.services.protocol.records import End
from bucketingest.write.instants.records import AbortDecision, CommitDecision

COMMIT = CommitDecision("20261124120000000", b"new groups")
OTHER = b"nothing"


@pytest.mark.parametrize(
    ("facts", "step", "end"),
    [
        (Facts(done=End.COMPLETED), Step.NOTHING, None),
        (Facts(), Step.VOID, None),
        (Facts(decided=AbortDecision("closed")), Step.END, End.VOID),
        (Facts(decided=COMMIT), Step.COMPLETE, None),
        (Facts(decided=COMMIT, changed="written to"), Step.CLOSE, None),
        (Facts(decided=COMMIT, completed=COMMIT.content), Step.END, End.COMPLETED),
        (Facts(decided=COMMIT, completed=OTHER), Step.END, End.VOID),
        (Facts(decided=COMMIT, completed=OTHER, changed="written to"), Step.END, End.VOID),
        (Facts(decided=COMMIT, completed=COMMIT.content, changed="written to"), Step.UNDO, None),
        (Facts(decided=COMMIT, completed=COMMIT.content, changed="x", built_on=True), Step.END, End.COMPLETED),
        (Facts(decided=COMMIT, completed=COMMIT.content, changed="x", cleaned=True), Step.END, End.COMPLETED),
        (Facts(decided=COMMIT, archived=True), Step.END, End.COMPLETED),
    ],
)
def test_each_step(facts: Facts, step: Step, end: End | None) -> None:
    choice = decide(facts)
    assert (choice.step, choice.end) == (step, end)
    assert choice.reason


def test_nothing_is_completed_that_was_not_decided_or_is_no_longer_as_it_was() -> None:
    for done, decided, completed, archived, changed in itertools.product(
        (None, *End),
        (None, AbortDecision("closed"), COMMIT),
        (None, COMMIT.content, OTHER),
        (False, True),
        (None, "changed"),
    ):
        facts = Facts(done, decided, completed, archived, changed)
        if decide(facts).step is Step.COMPLETE:
            assert (done, decided, completed, changed) == (None, COMMIT, None, None)
