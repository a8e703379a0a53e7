"""Keeps the index's state up to date with the table's files, whoever wrote them: what completed instants changed is
loaded before each plan.

What is new is found by the instants, not by a listing alone: an instant may complete late, after others that began
later, and a listing may leave out its newest files. An instant that has not completed is not covered, not even our own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from bucketingest.hudi.history.archived import hidden_writes, with_hidden
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.plans.replaced import replaced_by
from bucketingest.hudi.table.file_view import FileGroup, load_file_view
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, DELTA_COMMIT, REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.assignment.planned_file_ids import local_runs
from bucketingest.index.errors import StateDamaged, StateError
from bucketingest.index.state.coverage import CoveredSlice
from bucketingest.index.state.manifest import Manifest
from bucketingest.index.state.state_index import StateIndex
from bucketingest.index.state.store import StateStore, forget_state
from bucketingest.index.whole_table.contested import MovedAway
from bucketingest.index.whole_table.identity import WHOLE_TABLE, group_name, identity_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.covering.expectations import Expectations
from bucketingest.write.covering.keys_in_logs import refuse_keys_in_logs
from bucketingest.write.covering.lazy_loading import LazyLoading, recent_partitions
from bucketingest.write.covering.pending_inputs import PendingInputs
from bucketingest.write.covering.written_keys import (
    Logs,
    logs_of,
    logs_of_known_keys,
    logs_of_new_keys,
    stats_of,
    without_known_keys,
)
from bucketingest.write.errors import WriteError
from bucketingest.write.moving.moved_keys import keys_moved_away
from bucketingest.write.table_groups import Group

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""How often files that vanish while they are read, because they were cleaned or rolled back, are listed again."""
_CLEAR: Final = frozenset({DELTA_COMMIT, COMMIT, REPLACE_COMMIT})
"""Actions whose completed files name every file group that they changed."""
_READ_AGAIN: Final = 100
"""The newest commits, which name files that a listing may leave out."""
_SWEPT_EVERY: Final = 64
"""Manifests between two sweeps of the state's old objects."""


class CoveredTable:
    """The state of one table, and which of its completed instants it knows."""

    def __init__(self, storage: Storage, rules: StateRules, clock: Callable[[], datetime] = utc_now) -> None:
        """Raises StateTooNew if a newer release wrote the state."""
        self._storage = storage
        self.merge_rules: MergeRules | None = None
        """With `is_global`, to be set before the first `fold_in`: how the rows of a key that moved are read."""
        self._listed: dict[str, dict[str, FileGroup]] = {}
        """With `is_global`: all file groups as they were listed last, with their newest slices."""
        self._rules = rules
        self._clock = clock
        self.index = self._open()
        self.folded: frozenset[str] | None = None
        """File names of the completed write instants that the state knows; None: it was not compared with the table."""
        self.view = ""
        """The newest of their completion times."""
        self._refused: Logs = {}
        """Log files with new keys, which must not be in any slice."""
        self._first_active: str | None = None
        self._hidden: frozenset[str] = frozenset()
        """Archived writes that readers do not see for now. Their keys are in the table: readers will see them again."""
        self.expectations = Expectations(rules)
        self._pending = PendingInputs(storage)
        self._kept: Manifest | None = self.index.manifest
        self._planned, self._planned_on = "", Manifest()
        """The instant that was planned here last, and the state that its plan knows."""
        self._manifests = 0
        self._repairs = 0
        self.loading = LazyLoading()

    def fold_in(self, timeline: Timeline, replaced: Collection[Group]) -> None:
        """Load what the completed instants of the timeline changed; does nothing if it knows them all.

        `replaced`: file groups that readers no longer read. Raises DuplicateKeys, HashCollision, and what reading files
        raises; and UnsupportedTable if new keys belong into base files, and are in log files.
        """
        completed = {instant.file_name: instant for instant in timeline.completed_commits}
        self._pending.follow(timeline)
        beside = self._pending.changed(self._covered_slice)
        if self.folded is not None and self.folded == completed.keys() and not self.loading.wanted and not beside:
            self._pending.covered()
            return
        known = self.folded or frozenset()
        if self.loading.wanted:  # of these partitions, too, a listing may leave out the newest files
            by_completion = sorted(completed.values(), key=lambda each: each.completion_time or "")
            known -= {each.file_name for each in by_completion[-_READ_AGAIN:]}
        metadata = {name: self._metadata(each) for name, each in completed.items() if name not in known}
        new = [completed[name] for name in metadata if self.folded is None or name not in self.folded]
        of_new = [metadata[each.file_name] for each in new]
        partitions = None if self._is_unclear(timeline, new) else self._partitions(new, stats_of(of_new), beside)
        self._hidden = hidden_writes(self._storage, timeline) if partitions is None else self._hidden
        timeline = replace(timeline, hidden=self._hidden)
        stats = stats_of(metadata.values())
        if partitions is not None:
            stats = [stat for stat in stats if (stat.partition_path or "") in partitions]
        seen = "" if self.folded is not None else self.index.manifest.view
        newer = [each for each, of in zip(of_new, new, strict=True) if (of.completion_time or "") > seen]
        # Until it has succeeded, nothing that is listed is known.
        folded, first, self.folded = frozenset(completed), self.folded is None, None
        self._refused = logs_of_new_keys(metadata.values()) if first and self._rules.inserts == "base" else {}
        recent = recent_partitions(list(metadata.values()))
        self._cover(timeline, partitions, stats, replaced, newer, recent=recent)
        self.loading.loaded()
        self._pending.covered()
        self.folded, self._first_active = folded, timeline.first_active
        self.view = max((each.completion_time or "" for each in completed.values()), default="")
        self.expectations.note_commits(of_new)

    def list_again(self) -> None:
        """Files may be back that were gone when they were listed, in instants that are known."""
        self.folded = None

    def covers(self, group: Group) -> bool:
        """Whether the state knows the file group."""
        return self._covered_slice(group) is not None

    def note_plan(self, instant: str) -> None:
        """The plan of this instant has the state as it is now."""
        self._planned, self._planned_on = instant, self.index.manifest

    def keep(self) -> None:
        """Merge runs if there are many, and store the state for the next start."""
        self.index.merge()
        self._repairs = 0
        if self.index.manifest == self._kept or not self.view:
            return
        self.index.publish(self.view, self.view)
        self._kept = self.index.manifest
        self._manifests += 1
        if self._manifests % _SWEPT_EVERY == 1:
            self.index.store.sweep(self._clock(), keep_runs=self.index.manifest.runs)

    def has_runs(self, digests: Sequence[str]) -> bool:
        """Whether these runs are here or in storage, and whole."""
        try:
            for digest in digests:
                self.index.local.get(digest, self.index.store.get_run)
        except (StateError, NotFound) as error:
            log.warning("run of the state is lost", extra={"digest": digest, "reason": str(error)})
            return False
        return all(self.index.store.has_run(digest) for digest in digests)

    def repair(self) -> None:
        """An instant failed, perhaps because tasks could not get the state: store again what is lost, or load it anew.
        The second time in a row every byte is compared.
        """
        self._repairs += 1
        local, store = self.index.local, self.index.store
        for digest in self.index.manifest.runs:
            if self._repairs < 2 and store.has_run(digest):
                continue
            try:
                local.get(digest, store.get_run)
                store.put_run(digest, local.folder / digest)
            except (StateError, NotFound, FileNotFoundError) as error:
                log.warning("state loaded again", extra={"digest": digest, "reason": str(error)})
                self.index = self._open(anew=True)
                self.folded = self._kept = None
                return

    def _open(self, *, anew: bool = False) -> StateIndex:
        try:
            store = StateStore.open(self._storage, identity_of(self._rules))
        except StateDamaged as error:
            log.warning("state forgotten", extra={"reason": str(error)})
            forget_state(self._storage)
            store = StateStore.open(self._storage, identity_of(self._rules))
        local = local_runs(store.table_id)
        if not anew:
            return StateIndex.open(store, local)
        # Generations of what was lost are not used again: its runs may come back.
        return StateIndex(store, local, Manifest(next_generation=self.index.manifest.next_generation))

    def _is_unclear(self, timeline: Timeline, new: Iterable[Instant]) -> bool:
        """Whether the instants do not say which partitions changed: some are gone, or archived unseen."""
        if self.folded is None or timeline.first_active != self._first_active:
            return True
        gone = self.folded - {instant.file_name for instant in timeline.completed_commits}
        return bool(gone) or any(instant.action not in _CLEAR for instant in new)

    def _partitions(self, new: Iterable[Instant], stats: Iterable[WriteStat], beside: Collection[str]) -> list[str]:
        """Where the instants wrote files or replaced file groups, and those `beside`."""
        found = {stat.partition_path or "" for stat in stats}.union(self.loading.wanted, beside)
        replacing = (instant for instant in new if instant.action == REPLACE_COMMIT)
        return sorted(found | {path for instant in replacing for path, _ in replaced_by(self._storage, instant)})

    def _metadata(self, instant: Instant) -> CommitMetadata:
        path = path_of(instant)
        try:
            return CommitMetadata.decode(self._storage.get(path), path)
        except NotFound:  # archived or restored since the listing: the next timeline shows it
            return CommitMetadata()

    def _cover(
        self,
        timeline: Timeline,
        partitions: Sequence[str] | None,
        stats: Sequence[WriteStat],
        replaced: Collection[Group],
        newer: Sequence[CommitMetadata],
        *,
        recent: Collection[str],
    ) -> None:
        """`newer`: content of the instants that completed after the state was loaded."""
        new_logs = logs_of(newer)
        updates = logs_of_known_keys(newer, self._planned, deletes=self._rules.inserts == "base")
        for attempt in range(1, _ATTEMPTS + 1):
            named = [stat.path for stat in stats if stat.path is not None]
            view = load_file_view(self._storage, timeline, partitions, named)
            paths = set(view.partitions) | (set(self.index.manifest.partitions) if partitions is None else set())
            if partitions is None and not self._rules.is_global:  # a key may be in any partition
                loaded = self.loading.wanted.union(self.index.manifest.partitions)
                self.loading.choose(view, replaced, loaded, recent)
            self._listed = {} if partitions is None else self._listed
            try:
                for path in sorted(paths | set(partitions or ())):
                    groups = view.partitions.get(path, {})
                    current = {file_id: each for file_id, each in groups.items() if (path, file_id) not in replaced}
                    refuse_keys_in_logs(self._storage, current, self._refused)
                    if self._rules.is_global:
                        self._listed[path] = {id_: replace(of, slices=of.slices[-1:]) for id_, of in current.items()}
                    if self._rules.is_global or path in self.loading.left_out:
                        continue
                    self._cover_partition(path, current, updates, new_logs)
                    self.expectations.note_rooms(path, current)
                if self._rules.is_global:
                    self._cover_table(updates, new_logs, newer)
            except NotFound as error:
                log.warning("a file vanished while it was read", extra={"reason": str(error), "attempt": attempt})
                timeline, partitions = with_hidden(self._storage, Timeline.load(self._storage)), None
            else:
                return
        raise WriteError(f"{self._storage.url}: files vanished {_ATTEMPTS} times while they were read")

    def _cover_table(self, updates: Logs, new_logs: Logs, newer: Sequence[CommitMetadata]) -> None:
        """The table as one partition."""
        table = {group_name(path, id_): group for path, groups in self._listed.items() for id_, group in groups.items()}
        known = WHOLE_TABLE in self.index.manifest.partitions
        gone = keys_moved_away(self._storage, self.index.store.hasher, newer) if known else {}
        self._cover_partition(WHOLE_TABLE, table, updates, new_logs, gone=gone)

    def _covered_slice(self, group: Group) -> CoveredSlice | None:
        path, name = (WHOLE_TABLE, group_name(*group)) if self._rules.is_global else group
        known = self.index.manifest.partitions.get(path)
        return None if known is None else known.covered.get(name)

    def _cover_partition(
        self,
        path: str,
        groups: Mapping[str, FileGroup],
        updates: Logs,
        new_logs: Logs,
        *,
        gone: MovedAway | None = None,
    ) -> None:
        known = self.index.manifest.partitions.get(path)
        if known is None and not any(group.latest for group in groups.values()):
            return
        pending = self._pending.of(groups)
        planned = self._planned_on.partitions.get(path)
        state, left = without_known_keys(known, planned, groups, updates, new_logs, pending=pending)
        if state is not None and state != known:
            self.index.manifest = self.index.manifest.with_partition(path, state)
        loaded = self.index.cover(
            path,
            groups,
            deleted_keys=self._rules.inserts == "log",
            report_duplicates=self._rules.report_duplicates,
            new_logs=left,
            pending=pending,
            merge_rules=self.merge_rules,
            gone=gone,
        )
        if loaded.runs:
            log.info("keys loaded", extra={"partition": path, "keys": loaded.entries})
        if loaded.duplicates:
            extra = {"partition": path, "keys": loaded.duplicates, "sample": loaded.sample}
            log.error("keys are in two file groups; the newer one is written to", extra=extra)
