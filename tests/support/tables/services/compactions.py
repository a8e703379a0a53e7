"""Compactions of tables in memory, from their request to their end, and what other writers do to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.rollback.markers import delete_markers, marked_files
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackMetadata, RollbackPlan
from bucketingest.hudi.table.schema import arrow_to_avro, schema_json
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMPACTION, ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import Proposal, propose
from bucketingest.services.compaction.records import Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage
from support.tables.other_writers import next_time
from support.tables.services.snapshot import doubled_base_files, snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import SCHEMA, row, write, write_plan

ALL = CompactionTriggers(log_files=1)


def holder(storage: Storage, clock: Callable[[], datetime] = utc_now) -> CompactionHolder:
    return CompactionHolder(storage, nullcontext, lambda: None, clock=clock)


def compact(storage: Storage, clock: Callable[[], datetime] = utc_now) -> list[End]:
    return [each.end for each in compact_now(storage, holder(storage, clock), ALL, clock)]


@dataclass
class Written:
    """A table with four file groups and three commits, and its rows."""

    table: TestTable
    rows: dict[str, dict[str, object]]

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def unchanged(self) -> None:
        """Its rows are what they were, in one version, and nothing is left over."""
        assert snapshot(self.storage) == self.rows
        assert doubled_base_files(self.storage) == []
        assert self.table.leftovers() == []
        for path, content in self.table.completed().items():
            named = CommitMetadata.decode(content, path).files if path.endswith(".commit") else ()
            assert all(map(self.storage.exists, named)), "a commit without its base files"

    def goes_on(self) -> None:
        """The pipeline writes once more, and another compaction ends."""
        self.table.attempt().run(offsets(9, 11), [row("k0", at=50), row("new", region="us")])
        rows = snapshot(self.storage)
        assert rows.keys() == {*self.rows, "new"}
        assert compact(self.storage) == [End.COMPLETED]
        assert snapshot(self.storage) == rows
        assert doubled_base_files(self.storage) == []
        assert self.table.leftovers() == []


def written(*, base_files: bool) -> Written:
    table = TestTable()
    attempt = table.attempt()
    attempt.run(offsets(0, 3), [row("k0", at=1), row("k1", at=1), row("k2", region="us", at=1)])
    if base_files:
        assert compact(table.storage) == [End.COMPLETED]
    attempt.run(offsets(3, 6), [row("k0", at=2), row("k2", region="us", at=2), row("k3", at=2)])
    attempt.run(offsets(6, 9), [row("k1", at=0), row("k3", at=3)])
    return Written(table, snapshot(table.storage))


def started(storage: Storage, now: datetime | None = None) -> Work:
    """A requested compaction, its first round open."""
    proposal = propose(storage, ALL, now or utc_now()).proposal
    assert proposal is not None
    its = holder(storage, (lambda: now) if now else utc_now)
    its.request(proposal)
    work = its.advance()
    assert isinstance(work, Work)
    return work


def execute(storage: Storage, work: Work, *, failed: int = 0) -> None:
    """`failed`: how many file groups get no base file."""
    assert RoundExecutor(storage, work.number, work.round_number).run() == failed


def refused(storage: Storage, proposal: Proposal, why: str) -> None:
    with pytest.raises(PlanOutdated, match=why):
        holder(storage).request(proposal)


def finish(storage: Storage, now: datetime | None = None, *, failed: int = 0) -> list[End]:
    """Without a new one. `failed`: how many file groups get no base file in each round."""
    its = holder(storage, (lambda: now) if now else utc_now)
    for _ in range(9):
        state = its.advance()
        if isinstance(state, Work):
            execute(storage, state, failed=failed)
        elif state is not None:
            return [state.end]
    return []


def roll_back(given: Written, work: Work, *, finished: bool) -> str:
    """What a Hudi writer does to a compaction that it takes for dead: base files by markers, then the inflight file."""
    storage, time = given.storage, next_time(given.table)
    marked = marked_files(storage, work.compaction)
    files = tuple(RollbackFile(path.rpartition("/")[0], "", path) for path in sorted(marked))
    plan = RollbackPlan(work.compaction, COMPACTION, files)
    create_requested(storage, time, ROLLBACK, plan.encode(storage.absolute))
    if finished:
        finish_rollback(given, time, plan)
    return time


def finish_rollback(given: Written, time: str, plan: RollbackPlan) -> None:
    storage = given.storage
    create_inflight(storage, time, ROLLBACK)
    storage.delete_many([file.path for file in plan.files])
    storage.delete(path_of(Instant(plan.instant_time, COMPACTION, State.INFLIGHT)))
    content = RollbackMetadata(time, plan).encode(storage.absolute)
    complete(storage, time, next_time(given.table, time), content, ROLLBACK)


def commit_at(
    table: TestTable, request: str, completion: str, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA
) -> None:
    """Another writer's deltacommit, with exactly these times. `schema`: of the rows, and of the table from then on."""
    opened = table.attempt().opened
    plan = write_plan(
        table.definition,
        table_url=table.storage.url,
        instant_time=request,
        file_ids=opened.index.file_ids,
        schema=schema,
    )
    statuses = [status for status in write(rows, plan, table.storage) if status.file_id]
    stats = {
        status.partition_path: [
            WriteStat.of_log_file(status.partition_path, LogFileName.parse(status.file_name), size=status.size_bytes)
        ]
        for status in statuses
    }
    assert len(stats) == len(statuses)
    create_requested(table.storage, request)
    create_inflight(table.storage, request)
    columns = {"schema": schema_json(arrow_to_avro(schema, table_name=table.definition.name))}
    complete(table.storage, request, completion, CommitMetadata(stats, columns).encode())
    delete_markers(table.storage, request)
