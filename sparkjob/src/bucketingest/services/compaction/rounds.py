"""Makes the base files of a round: what executors do, in the job or beside it. Any number may work on one round."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.instant import COMPACTION, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.state.store import keeps_state
from bucketingest.services.compaction.commit import decided_files
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import OperationResult, PlanRecord, Round, round_token
from bucketingest.services.compaction.sweep import archived_commits, completed_commits
from bucketingest.services.errors import RoundEnded
from bucketingest.services.merge.adopted_base import adopted_base_file
from bucketingest.services.merge.failures import fails_alone, reason_of
from bucketingest.services.merge.merge_group import MERGE_VERSION, compact_group
from bucketingest.storage import NotFound, Storage

log = logging.getLogger(__name__)

_ROLLED_BACK: Final = "an instant of its files was rolled back after the compaction was planned"


class RoundExecutor:
    """Makes the base files of one round that are missing. What an executor before this one made is adopted."""

    def __init__(self, storage: Storage, number: int, round_number: int) -> None:
        """Raises RoundEnded if the round is not the newest, or was opened by a release that merges otherwise."""
        self._storage = storage
        self._number = number
        self._round_number = round_number
        self._journal = CompactionJournal(storage)
        self._record, self._opened = self._read()
        self._compaction = self._record.compaction
        self._operations = self._record.plan(self._journal.path(number, "plan")).operations
        self._chunks = self._record.chunks()
        schema = avro_to_arrow(with_meta_columns(json.loads(self._record.schema)))
        table = load_table(storage)
        self._rules = merge_rules(table, schema, bloom_filter=keeps_state(table))

    def _read(self) -> tuple[PlanRecord, Round]:
        record = self._journal.plan(self._number)
        newest, opened = self._journal.newest_round(self._number)
        if record is None or opened is None or newest != self._round_number:
            raise RoundEnded(f"round {self._round_number} of compaction {self._number} has ended")
        if opened.merge_version != MERGE_VERSION:
            raise RoundEnded(f"the round of {record.compaction} was opened by a release that merges otherwise")
        return record, opened

    def run(
        self,
        *,
        gives_up: Mapping[int, str] = MappingProxyType({}),
        starts: Callable[[int, int], None] = lambda _place, _of: None,
    ) -> int:
        """Make the base files, and record results by chunks; returns how many operations failed.

        `gives_up`: operations that are not tried, by their place in the plan, and why. `starts` is called with the
        place of each operation and their number. An operation that cannot be merged fails alone: its file group keeps
        its slice. Raises RoundEnded if another process ended the round, and StorageError: then another
        executor continues.
        """
        done, failures = self.done_chunks(), 0
        for chunk in range(self.chunk_count):
            if chunk not in done:
                failures += self.run_chunk(chunk, gives_up=gives_up, starts=starts)
        return failures

    @property
    def compaction(self) -> str:
        """Request time of the compaction."""
        return self._compaction

    @property
    def chunk_count(self) -> int:
        """Number of the chunks into which the round's work is cut."""
        return len(self._chunks)

    def done_chunks(self) -> set[int]:
        """The chunks that have results."""
        return self._journal.result_chunks(self._number, self._round_number)

    def run_chunk(
        self,
        chunk: int,
        *,
        gives_up: Mapping[int, str] = MappingProxyType({}),
        starts: Callable[[int, int], None] = lambda _place, _of: None,
    ) -> int:
        """Make the base files of one chunk, and record their results; returns how many failed. See `run`."""
        results = []
        for place in self._chunks[chunk]:
            starts(place, len(self._operations))
            operation = self._operations[place]
            rolled_back = _ROLLED_BACK if operation.group in self._opened.left_out else None
            results.append(self._result(operation, rolled_back or gives_up.get(place)))
        self._journal.put_results(self._number, self._round_number, chunk, results)
        return sum(result.stat is None for result in results)

    def _result(self, operation: CompactionOperation, failed: str | None) -> OperationResult:
        self.check()
        late = self._opened.added.get(operation.group, ())
        whole = replace(operation, log_files=_with(operation, late))
        token = round_token(self._round_number)
        if failed is None:
            try:
                stat = compact_group(
                    self._storage,
                    whole,
                    self._compaction,
                    self._rules,
                    token=token,
                    check=self.check,
                    too_late=self._discard,
                )
                return OperationResult(stat)
            except Exception as error:
                if not fails_alone(error):
                    raise
                if isinstance(error, NotFound) and not late:  # another writer merged what the plan says, and only that
                    adopted = adopted_base_file(self._storage, operation, self._compaction)
                    if adopted is not None:
                        self.check()
                        return OperationResult(adopted)
                failed = reason_of(error)
        extra = {"partition": operation.partition_path, "file_id": operation.file_id, "reason": failed}
        log.error("file group not compacted, its slice stays", extra=extra)
        return OperationResult(None, failed)

    def _discard(self, path: str) -> None:
        """Delete a base file that came after the end of its round, unless it is or may be a part of a commit: another
        executor may have adopted it, or made it first. What stays here is swept when the compaction has ended; so if it
        ended so long ago that its objects are gone, its commit says what is a part of it.
        """
        decided = self._journal.decision(self._number, self._round_number)
        if decided is not None:
            late = path not in decided_files(decided)
        elif self._journal.plan(self._number) is None:
            found = completed_commits(self._storage, self._compaction).values()
            commits = [*found] or archived_commits(self._storage, self._compaction)
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
            raise RoundEnded(f"round {self._round_number} of compaction {self._compaction} has ended")
        timeline = Timeline.load(self._storage)
        found = timeline.find(self._compaction, COMPACTION)
        if found is None or found.state is not State.INFLIGHT:
            raise RoundEnded(f"compaction {self._compaction} is no longer inflight: another writer took it over")
        named = {each.request_time for each in rollbacks_of(self._storage, timeline, self._compaction)}
        if unknown := named - opened.rollbacks:
            raise RoundEnded(f"compaction {self._compaction} was rolled back by another writer: {max(unknown)}")


def _with(operation: CompactionOperation, added: tuple[str, ...]) -> tuple[str, ...]:
    """The log files to merge, in the order in which readers merge them."""
    if not added:
        return operation.log_files
    names = {LogFileName.parse(name) for name in (*operation.log_files, *added)}
    return tuple(map(str, sorted(names, key=lambda each: (each.instant, each.version, each.write_token))))
