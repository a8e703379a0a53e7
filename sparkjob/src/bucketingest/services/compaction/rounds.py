"""Makes the base files of a round: what executors do, in the job or beside it. Any number may work on one round."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.instant import COMPACTION, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.state.store import keeps_state
from bucketingest.services.compaction.commit import decided_files
from bucketingest.services.compaction.records import CompactionJournal, round_token
from bucketingest.services.compaction.sweep import archived_commits, completed_commits
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.adopted_base import adopted_base_file
from bucketingest.services.merge.merge_group import MERGE_VERSION, compact_group
from bucketingest.services.protocol.executor import Executor
from bucketingest.storage import NotFound, Storage

_CHANGED: Final = "after the compaction was planned an instant of its files was rolled back, or came with new columns"


class RoundExecutor(Executor):
    """Makes the base files of one round that are missing."""

    _journal: CompactionJournal

    def __init__(self, storage: Storage, number: int, round_number: int) -> None:
        """Raises RoundEnded if the round is not the newest, or was opened by a release that merges otherwise."""
        journal = CompactionJournal(storage)
        record, (newest, opened) = journal.plan(number), journal.newest_round(number)
        if record is None or opened is None or newest != round_number:
            raise RoundEnded(f"round {round_number} of compaction {number} has ended")
        if opened.merge_version != MERGE_VERSION:
            raise RoundEnded(f"the round of {record.compaction} was opened by a release that merges otherwise")
        super().__init__(journal, number, record.chunks(), round_number=round_number)
        self._storage = storage
        self._opened = opened
        self.compaction = record.compaction
        """Its request time."""
        self._operations = record.plan(journal.path(number, "plan")).operations
        schema = avro_to_arrow(with_meta_columns(json.loads(record.schema)))
        table = load_table(storage)
        self._rules = merge_rules(table, schema, bloom_filter=keeps_state(table))

    def _make(self, place: int) -> WriteStat:
        operation = self._operations[place]
        late = self._opened.added.get(operation.group, ())
        try:
            return compact_group(
                self._storage,
                replace(operation, log_files=_with(operation, late)),
                self.compaction,
                self._rules,
                token=round_token(self._round_number),
                check=self.check,
                too_late=self._discard,
            )
        except NotFound:  # another writer merged what the plan says, and only that
            adopted = None if late else adopted_base_file(self._storage, operation, self.compaction)
            if adopted is None:
                raise
            self.check()
            return adopted

    def _named(self, place: int) -> dict[str, object]:
        return {"partition": self._operations[place].partition_path, "file_id": self._operations[place].file_id}

    def _left_out(self, place: int) -> str | None:
        return _CHANGED if self._operations[place].group in self._opened.left_out else None

    def _discard(self, path: str) -> None:
        """Delete a base file that came after the end of its round, unless it is or may be a part of a commit: another
        executor may have adopted it, or made it first. What stays here is swept when the compaction has ended; so if it
        ended so long ago that its objects are gone, its commit says what is a part of it.
        """
        decided = self._journal.decision(self._number, self._round_number)
        if decided is not None:
            late = path not in decided_files(decided)
        elif self._journal.plan(self._number) is None:
            found = completed_commits(self._storage, self.compaction).values()
            commits = [*found] or archived_commits(self._storage, self.compaction)
            late = all(path not in commit.files for commit in commits)
        else:
            late = False
        if late:
            self._storage.delete(path)

    def check(self) -> None:
        """Raise RoundEnded unless the round is the newest, undecided, and its compaction inflight."""
        newest, opened = self._journal.newest_round(self._number)
        decided = self._journal.decision(self._number, self._round_number)
        if newest != self._round_number or opened is None or decided is not None:
            raise RoundEnded(f"round {self._round_number} of compaction {self.compaction} has ended")
        timeline = Timeline.load(self._storage)
        found = timeline.find(self.compaction, COMPACTION)
        if found is None or found.state is not State.INFLIGHT:
            raise RoundEnded(f"compaction {self.compaction} is no longer inflight: another writer took it over")
        named = {each.request_time for each in rollbacks_of(self._storage, timeline, self.compaction)}
        if unknown := named - opened.rollbacks:
            raise RoundEnded(f"compaction {self.compaction} was rolled back by another writer: {max(unknown)}")


def _with(operation: CompactionOperation, added: tuple[str, ...]) -> tuple[str, ...]:
    """The log files to merge, in the order in which readers merge them."""
    if not added:
        return operation.log_files
    names = {LogFileName.parse(name) for name in (*operation.log_files, *added)}
    return tuple(map(str, sorted(names, key=lambda each: (each.instant, each.version, each.write_token))))
