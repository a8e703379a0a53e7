"""The decision about a clean: the first one counts, and old ones are forgotten."""

from __future__ import annotations

from datetime import timedelta

from bucketingest.services.clean.execute import CleanDecisions
from bucketingest.services.protocol.journal import KEPT, KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.write.instants.records import CommitDecision
from support.tables.services.named_slices import NOW, NamedTable, ago
from support.tables.services.stored_slices import StoredTable

FIRST, SECOND = CommitDecision("1", b"first\n\x00"), CommitDecision("2", b"second")


def test_the_first_decision_counts() -> None:
    decisions = CleanDecisions(StoredTable(NamedTable()).storage)
    assert decisions.decision(9) is None
    assert decisions.decide(9, FIRST) == FIRST
    assert decisions.decide(9, SECOND) == FIRST
    assert decisions.decision(9) == FIRST
    assert decisions.decide(8, SECOND) == SECOND


def test_old_cleans_are_forgotten_but_not_the_newest_and_not_open_or_young_ones() -> None:
    table = StoredTable(NamedTable())
    decisions = CleanDecisions(table.storage)
    cleans = [int(ago(minutes)) for minutes in range(2 * KEPT, 0, -1)]
    for clean in cleans:
        decisions.decide(clean, FIRST)
    for clean in cleans[1:]:
        decisions.mark_done(clean, End.COMPLETED)
        decisions.mark_done(clean, End.COMPLETED)
    assert decisions.expired(NOW + KEPT_FOR) == []
    assert decisions.expired(NOW + KEPT_FOR + timedelta(minutes=1)) == cleans[1:-KEPT]
    decisions.forget(cleans[1])
    assert decisions.numbers() == [cleans[0], *cleans[2:]]
