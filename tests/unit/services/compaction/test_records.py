"""What a compaction's own objects hold."""

from __future__ import annotations

import pytest

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import PlanRecord
from support.tables.services.compactions import ALL, Written


def test_a_plan_says_how_much_there_is_to_merge(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    record = proposal.record
    operations = record.plan("here").operations
    assert record.operations == len(operations) > 1
    assert sum(map(len, record.chunks())) == len(operations)
    stored = record.encode()
    assert PlanRecord.decode(stored, "here") == record
    with pytest.raises(InvalidTable, match="here cannot be read"):
        PlanRecord.decode(stored[:-1], "here")
