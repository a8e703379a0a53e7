"""The file groups of a table whose keys are looked up in a state: each micro-batch has a recorded plan, and is checked
once more before its commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from bucketingest.hudi.base.base_file import empty_base_file
from bucketingest.hudi.log.blocks import parquet_data_block
from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.plans.replaced import in_pending_clusterings, replaced_file_groups
from bucketingest.hudi.table.schema import avro_to_arrow
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.commit_metadata import WrittenFile
from bucketingest.hudi.timeline.instant import COMPACTION, LOG_COMPACTION
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.assignment.open_groups import InsertRules
from bucketingest.index.assignment.plan import AssignmentPlan, digest_of
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.errors import StateError
from bucketingest.index.state.key_columns import keys_of_deletes, keys_of_rows
from bucketingest.index.state.summary import StateSummary
from bucketingest.storage import created
from bucketingest.write.covering.covered_table import CoveredTable
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import Intent, LedgerEntry
from bucketingest.write.moving.commit_check import CommitCheck
from bucketingest.write.open_table import OpenTable
from bucketingest.write.rows.write_status import WriteStatus, new_keys_of
from bucketingest.write.table_groups import Group

log = logging.getLogger(__name__)


class StateGroups:
    """Implements `TableGroups`."""

    def __init__(
        self, opened: OpenTable, journal: Journal, rules: StateRules, tasks: int, clock: Callable[[], datetime]
    ) -> None:
        """`tasks`: how many write tasks a new plan is for."""
        self._storage = opened.storage
        self._journal = journal
        self._rules = rules
        self._tasks = tasks
        self._schema = avro_to_arrow(json.loads(opened.block_schema_json))
        self._block_schema_json = opened.block_schema_json
        self._covered = CoveredTable(opened.storage, rules, clock)
        if rules.is_global:
            self._covered.merge_rules = merge_rules(opened.table, self._schema)
        self._busy: frozenset[Group] = frozenset()
        self._may_come_back: dict[str, tuple[str, WrittenFile]] = {}
        """Files of overtaken instants that were there when names were closed, by path, each with its instant."""
        self._planned: PlannedFileIds | None = None
        self._planned_on: frozenset[str] | None = None
        """The completed instants that the plan knows; None: another attempt made it."""
        if rules.inserts == "log":
            why = "new keys go into log files, where Hudi's BLOOM and SIMPLE indexes do not look"
            todo = "run bucketingest handover before a Hudi writer with such an index writes to the table"
            log.warning(why, extra={"table": self._storage.url, "todo": todo})

    @property
    def file_ids(self) -> PlannedFileIds:
        """The plan of the micro-batch that is written now; with new keys in log files, of all those of its instant."""
        assert self._planned is not None, "a micro-batch is planned before its tasks start"
        return self._planned

    @property
    def fingerprint(self) -> str:
        """A plan is repeated word for word, so it is no part of what must be equal."""
        return "state"

    @property
    def rules(self) -> str:
        """There are none."""
        return ""

    @property
    def state(self) -> StateSummary:
        """Its size after the last `prepare` or `fold_in`."""
        covered = self._covered
        unloaded, in_logs = len(covered.loading.unloaded), self._rules.inserts == "log"
        return replace(covered.index.summary, unloaded_partitions=unloaded, new_keys_in_logs=in_logs)

    def close_names(self, timeline: Timeline) -> None:
        """Put empty files where those of overtaken instants were: a task that was paused until now may put its own
        there, which readers see as long as the instant counts as complete. Of a file group of which all else is gone,
        the keys have another one by then. What was put there before is found by the next listing.
        """
        self._may_come_back = {}
        for instant, objects in self._journal.objects_by_instant().items():
            if "overtaken" not in objects or "aborted" in objects:
                continue
            if timeline.completion_time(instant) or timeline.is_archived(instant):
                self._close_names_of(instant)
                self._covered.list_again()

    def _close_names_of(self, instant: str) -> None:
        files = self._journal.files(instant)
        partitions = {file.partition_path for file in files}
        there = {info.path for path in partitions for info in self._storage.list_level(path).objects}
        for file in files:
            path = join(file.partition_path, file.name)
            if path in there or not self._close_name(instant, file):
                self._may_come_back[path] = (instant, file)

    def _close_name(self, instant: str, file: WrittenFile) -> bool:
        """False if the file is there after all."""
        path, is_base = join(file.partition_path, file.name), BaseFileName.try_parse(file.name) is not None
        content = empty_base_file(self._schema, file.name) if is_base else self._empty_log(instant)
        closed = created(self._storage, path, content)
        if closed:
            extra = {"instant": instant, "file": path}
            log.warning("another writer deleted a file; an empty one keeps its name", extra=extra)
        return closed

    def _close_dropped(self) -> bool:
        """Close the names of files that were deleted since, with all else of their file groups: the keys get another
        one now. Returns whether one is back already, and must be listed.
        """
        dropped = {
            path: (instant, file)
            for path, (instant, file) in self._may_come_back.items()
            if not self._covered.covers((file.partition_path, file.file_id))
        }
        closed = [path for path, (instant, file) in dropped.items() if self._close_name(instant, file)]
        for path in closed:
            del self._may_come_back[path]
        return len(closed) < len(dropped)

    def _empty_log(self, instant: str) -> bytes:
        rows = self._schema.empty_table()
        return b"".join(parquet_data_block(rows, instant_time=instant, avro_schema_json=self._block_schema_json))

    def prepare(self) -> None:
        """Load what the state lacks. Raises DuplicateKeys, and what reading the table's files does."""
        if self._planned is not None:  # its instant did not complete: perhaps as a task could not get the state
            self._covered.repair()
        self._planned = None
        timeline = Timeline.load(self._storage)
        if self._covered.folded is None:
            self._recall_plan()
        self._covered.fold_in(timeline, replaced_file_groups(self._storage, timeline))
        if self._may_come_back and self._close_dropped():
            self._covered.list_again()
            self._covered.fold_in(timeline, replaced_file_groups(self._storage, timeline))
        self._covered.keep()
        self._busy = self._taken(timeline) if self._rules.inserts == "log" else frozenset()

    def _recall_plan(self) -> None:
        """The newest instant was perhaps planned by another process, with the state as it is here."""
        instant = max(self._journal.instants(), default="")
        started = self._journal.intent(instant, 1) if instant else None
        plan = None if started is None else self._recorded(instant, started)
        manifest = self._covered.index.manifest
        if plan is not None and (plan.runs, plan.generations) == (manifest.runs, manifest.generations):
            self._covered.note_plan(instant)

    def fold_in(self, timeline: Timeline, written: Sequence[Group], replaced: Collection[Group]) -> None:  # noqa: ARG002
        """Load what others wrote. Raises as `prepare`."""
        self._covered.fold_in(timeline, replaced)

    def plan(self, instant: str, sequence: int) -> str:
        """Record the plan, unless the instant has one; its digest."""
        if sequence > 1 and self._planned is not None:
            return self._planned.fingerprint
        covered, store = self._covered, self._covered.index.store
        manifest = covered.index.manifest
        plan = AssignmentPlan.of(
            covered.expectations.profile(self._busy),
            InsertRules(self._rules.inserts, self._rules.target_bytes, self._tasks),
            table=store.table_id.hex(),
            instant=instant,
            sequence=sequence,
            seed=store.hasher.seed,
            runs=manifest.runs,
            generations=manifest.generations,
            view=covered.view,
            unloaded=covered.loading.unloaded,
            is_global=self._rules.is_global,
        )
        content = plan.encode(store.table_id)
        digest = digest_of(content)
        self._journal.put_plan(instant, digest, content)
        covered.note_plan(instant)
        self._planned, self._planned_on = PlannedFileIds(plan, store.table_id), covered.folded
        return digest

    def goes_on(self, instant: str, sequence: int) -> bool:
        """A key that is new in two micro-batches of an instant must get the same file group: these have one plan."""
        if sequence == 1:
            return True
        before = self._journal.intent(instant, sequence - 1) if self._rules.inserts == "log" else None
        return before is not None and self.resume(instant, before)

    def resume(self, instant: str, started: Intent) -> bool:
        """Take the recorded plan, if it is whole and the state that it names is there."""
        if self._planned is not None and self._planned.plan.instant == instant:
            return self._planned.fingerprint == started.plan
        plan = self._recorded(instant, started)
        if plan is None or not self._covered.has_runs(plan.runs):
            return False
        self._planned, self._planned_on = PlannedFileIds(plan, self._covered.index.store.table_id), None
        return True

    def _recorded(self, instant: str, started: Intent) -> AssignmentPlan | None:
        """The plan by which this micro-batch was started, if it is whole."""
        content = None if started.plan is None else self._journal.plan(instant, started.plan)
        if content is None or digest_of(content) != started.plan:
            return None
        try:
            return AssignmentPlan.decode(content, self._covered.index.store.table_id, source=f"plan of {instant}")
        except StateError as error:
            log.warning("plan cannot be repeated", extra={"instant": instant, "reason": str(error)})
            return None

    def refusal(self, timeline: Timeline, instant: str, entries: Sequence[LedgerEntry]) -> str | None:
        """Whether a file group is being clustered or is gone, or a key that is new here has another one by now."""
        statuses = [each for entry in entries for each in entry.statuses if each.file_id]
        clustered = in_pending_clusterings(self._storage, timeline)
        for each in statuses:
            if (name := clustered.get((each.partition_path, each.file_id))) is not None:
                place = f"{each.file_id} of partition {each.partition_path!r}"
                return f"file group {place} is in the pending clustering {name}; run it, or roll it back"
        same_plan = self._planned is not None and self._planned.plan.instant == instant
        if same_plan and self._planned_on == self._covered.folded:
            return None
        if self._rules.is_global:
            started = self._journal.intent(instant, 1)
            if started is None or not self.resume(instant, started):
                return "the plan by which its keys were placed, or the state that it names, is lost"
            check = CommitCheck(self._storage, timeline, self._covered.index, self.file_ids, self._planned_on)
            return check.refusal(statuses)
        return next(filter(None, map(self._refusal, statuses)), None)

    def load(self, partition_paths: Collection[str], *, everything: bool) -> None:
        """The next `prepare` loads them."""
        self._planned = None  # nothing was lost
        self._covered.loading.want(partition_paths, everything=everything)

    def wrote(self, written: Collection[Group]) -> None:  # noqa: ARG002
        """The next `fold_in` reads what the instant wrote, as it does with every writer's."""
        self._planned = None
        self._covered.loading.met_none()

    def _taken(self, timeline: Timeline) -> frozenset[Group]:
        """File groups in pending compactions and clusterings: they are rewritten, so they take no new keys."""
        groups: set[Group] = set(in_pending_clusterings(self._storage, timeline))
        for pending in timeline.pending:
            if pending.action in (COMPACTION, LOG_COMPACTION):
                plan = read_compaction_plan(self._storage, pending.request_time, pending.action)
                groups |= {operation.group for operation in plan.operations} if plan is not None else set()
        return frozenset(groups)

    def _refusal(self, status: WriteStatus) -> str | None:
        path, file_id = status.partition_path, status.file_id
        files = new_keys_of(status)
        if files is None:
            known = self._covered.index.manifest.partitions.get(path)
            if known is None or file_id not in known.covered:
                return f"another writer removed file group {file_id} of partition {path!r} meanwhile"
            return None
        if path in self._covered.loading.unloaded:
            return f"another writer made partition {path!r} meanwhile, and its keys are not loaded"
        look_up = self._covered.index.look_up(path)
        if look_up is None:
            return None
        for keys in chain(keys_of_rows(self._storage, files), keys_of_deletes(self._storage, files)):
            _, elsewhere = look_up.elsewhere(self._covered.index.store.hasher.hash(keys), file_id)
            if len(elsewhere):
                other = look_up.groups[int(elsewhere[0])]
                return (
                    f"another writer inserted keys of file group {file_id} into {other} of partition {path!r} meanwhile"
                )
        return None
