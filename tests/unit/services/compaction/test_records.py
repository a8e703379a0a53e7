"""What a compaction's own objects hold, also those that an older release wrote."""

from __future__ import annotations

import json

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import PlanRecord
from support.tables.services.compactions import ALL, Written


def test_a_plan_says_how_much_there_is_to_merge_also_that_of_a_release_that_did_not_count(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    record = proposal.record
    operations = record.plan("here").operations
    assert record.operations == len(operations) > 1
    assert sum(map(len, record.chunks())) == len(operations)
    header, _, content = record.encode().partition(b"\n")
    fields = json.loads(header)
    older = {name: value for name, value in fields.items() if name not in ("operations", "size")}
    assert len(older) == len(fields) - 2
    assert PlanRecord.decode(json.dumps(older).encode() + b"\n" + content, "here") == record
