"""The decision about a clean: the first one counts, and old ones are forgotten."""

from __future__ import annotations

from datetime import timedelta

from bucketingest.services.clean.decisions import KEPT_CLEANS, KEPT_FOR, StoredDecisions
from bucketingest.write.instants.records import CommitDecision
from support.tables.services.named_slices import NOW, NamedTable, ago
from support.tables.services.stored_slices import StoredTable

FIRST, SECOND = CommitDecision("1", b"first\n\x00"), CommitDecision("2", b"second")


def test_the_first_decision_counts() -> None:
    decisions = StoredDecisions(StoredTable(NamedTable()).storage)
    assert decisions.decided("9") is None
    assert decisions.decide("9", FIRST) == FIRST
    assert decisions.decide("9", SECOND) == FIRST
    assert decisions.decided("9") == FIRST
    assert decisions.decide("8", SECOND) == SECOND


def test_old_cleans_are_forgotten_but_not_the_newest_and_not_open_ones() -> None:
    table = StoredTable(NamedTable())
    decisions = StoredDecisions(table.storage)
    day = KEPT_FOR / timedelta(minutes=1)
    cleans = [ago(day * 9), ago(day * 8), *(ago(day * 2 + number) for number in range(KEPT_CLEANS))]
    for clean in cleans:
        decisions.decide(clean, FIRST)
    for clean in cleans[1:]:
        decisions.mark_done(clean)
        decisions.mark_done(clean)
    decisions.forget(NOW)
    kept = {path.split("/")[1] for path in table.own_objects()}
    assert kept == {cleans[0], *cleans[2:]}
    for clean in (ago(1), ago(2), ago(3)):
        decisions.decide(clean, FIRST)
        decisions.mark_done(clean)
    decisions.forget(NOW)
    kept = {path.split("/")[1] for path in table.own_objects()}
    assert kept == {cleans[0], ago(1), ago(2), ago(3)}


def test_a_young_clean_is_kept() -> None:
    table = StoredTable(NamedTable())
    decisions = StoredDecisions(table.storage)
    for minutes in range(KEPT_CLEANS + 2):
        decisions.mark_done(ago(minutes))
    decisions.forget(NOW)
    assert len(table.own_objects()) == KEPT_CLEANS + 2
