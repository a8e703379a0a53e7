"""The index of a table without buckets: a cache of its files, loaded where keys are missing, forgotten where wrong.

For each key it knows a hash and the file group that has the key's row. It is never the truth: the table's files are.
So it may be deleted, and is loaded again.

* A **run** is an immutable file of sorted entries. The **manifest** names the runs, and for each partition the file
  slices that they cover. It is put after the runs: a crash leaves runs that nothing names.
* `look_up` answers for one partition, from runs on the local disk. A partition that is not covered is loaded first:
  `cover` compares what readers see now with what is covered, and reads the keys of what is new, also of other writers.
* Only files that readers see are covered: what a rolled back instant assigned leaves no entry.
* A partition of which most is new, or something is wrong, is forgotten and loaded again under another generation, a
  number that is used once: entries of older ones no longer count.
* Many small runs are merged into larger ones, newest entry first.
"""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np

from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.table.file_view import FileGroup, FileSlice
from bucketingest.index.errors import StateError
from bucketingest.index.state.coverage import CoveredSlice, Difference, PartitionState, Pending, difference
from bucketingest.index.state.hashing import KeyHashes
from bucketingest.index.state.loading import Loaded, Loader
from bucketingest.index.state.manifest import Manifest
from bucketingest.index.state.runs.entries import NO_GROUP, Entries
from bucketingest.index.state.runs.local_runs import LocalRuns
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.merging import NewFile, RunMerger, runs_to_merge
from bucketingest.index.state.runs.run_file import Run, RunSlice, RunWriter
from bucketingest.index.state.store import StateStore
from bucketingest.index.state.summary import StateSummary
from bucketingest.index.whole_table.contested import MovedAway, Resolver
from bucketingest.index.whole_table.identity import group_of
from bucketingest.storage.errors import NotFound

log = logging.getLogger(__name__)

_NOTHING: Final = Loaded((), 0, 0, ())


@dataclass(slots=True)
class StateIndex:
    """The state of one table in one process. Build it with `open`."""

    store: StateStore
    local: LocalRuns
    manifest: Manifest
    _runs: list[Run] = field(default_factory=list)
    """Newest first, as the manifest names them."""
    _look_ups: dict[str, PartitionLookUp] = field(default_factory=dict)
    _loaded_keys: int = 0

    @classmethod
    def open(cls, store: StateStore, local: LocalRuns) -> Self:
        """The newest state that is whole; an empty one, with a warning, if one of its runs is lost or damaged."""
        manifest = store.newest_manifest()
        index = cls(store, local, manifest)
        try:
            index._runs = [local.get(digest, store.get_run) for digest in manifest.runs]
        except (StateError, NotFound) as error:
            log.warning("state forgotten", extra={"reason": str(error), "partitions": len(manifest.partitions)})
            index._runs = []
            # Its runs may come back, so their generations are not used again.
            index.manifest = Manifest(view=manifest.view, next_generation=manifest.next_generation)
        return index

    @property
    def summary(self) -> StateSummary:
        """How large it is."""
        partitions = self.manifest.partitions
        return StateSummary(
            keys=sum(map(len, self._runs)),
            size_bytes=sum(run.size for run in self._runs),
            runs=len(self._runs),
            partitions=len(self._partitions()),
            file_groups=sum(len(each.covered) for each in partitions.values()),
            loaded_keys=self._loaded_keys,
        )

    def _partitions(self) -> set[str]:
        if self.store.identity == "partition+key":
            return set(self.manifest.partitions)
        return {group_of(name)[0] for each in self.manifest.partitions.values() for name in each.covered}

    def look_up(self, partition_path: str) -> PartitionLookUp | None:
        """The keys of a partition; None if it is not loaded."""
        known = self.manifest.partitions.get(partition_path)
        if known is None:
            return None
        if partition_path not in self._look_ups:
            self._look_ups[partition_path] = PartitionLookUp.of(self._slices(partition_path, known.generation))
        return self._look_ups[partition_path]

    def cover(
        self,
        partition_path: str,
        groups: Mapping[str, FileGroup],
        *,
        deleted_keys: bool = False,
        report_duplicates: bool = False,
        new_logs: Mapping[str, Collection[str]] | None = None,
        pending: Pending | None = None,
        merge_rules: MergeRules | None = None,
        gone: MovedAway | None = None,
    ) -> Loaded:
        """Load what the state lacks of a partition; afterwards its look-ups know every key in these file groups.

        groups: those that readers see now, by file id. new_logs: names of log files, by file id, that instants made
        since the state was loaded: if nothing else of a group is new, only these are read. pending: what compactions of
        these groups read besides. merge_rules: if keys may move from one group to another, how their rows are read.
        Others as for `Loader.load`, which also says what is raised; the state is then as before, except that entries
        known to be wrong stay forgotten.
        """
        pending = pending or {}
        known = self.manifest.partitions.get(partition_path)
        found = difference(known.covered if known else {}, groups, pending)
        slices = {file_id: group.latest for file_id, group in groups.items() if group.latest is not None}
        if known is not None and _is_mostly_new(known, found, slices):
            log.info("partition of the state loaded again", extra={"partition": partition_path, **_counts(found)})
            self._forget(partition_path)
            known, found = None, difference({}, groups)
        if known is not None and not found.read and not found.gone:
            return _NOTHING
        generation = known.generation if known is not None else self.manifest.next_generation
        self.local.folder.mkdir(parents=True, exist_ok=True)
        storage, hasher = self.store.storage, self.store.hasher
        resolver = None if merge_rules is None else Resolver(storage, hasher, merge_rules)
        loader = Loader(storage, hasher, self.store.table_id, self.local.folder, resolver=resolver)
        parts = {} if known is None else _parts(known, found, slices, new_logs or {}, pending)
        loaded = loader.load(
            partition_path,
            generation,
            slices,
            file_ids=found.read,
            known=self.look_up(partition_path),
            deleted_keys=deleted_keys,
            report_duplicates=report_duplicates,
            parts=parts,
            pending={file_id: pending[file_id] for file_id in found.read if file_id in pending.keys() - parts.keys()},
            gone=gone,
        )
        self._loaded_keys += loaded.entries
        for digest, file in loaded.runs:
            self.store.put_run(digest, file)
        files = [*loaded.runs]
        if found.stale:
            # After the keys that these groups have now: of two entries the first one counts.
            now = [self.local.get(digest, self.store.get_run) for digest, _ in loaded.runs]
            removals = write_removals(
                self._slices(partition_path, generation),
                set(found.stale),
                self.local.folder,
                self.store.table_id,
                now=[run.slices[partition_path] for run in now if partition_path in run.slices],
            )
            for digest, file in removals:
                self.store.put_run(digest, file)
            files += removals
        before = known.covered if known is not None else {}
        covered = {file_id: each for file_id, each in before.items() if file_id not in found.gone}
        covered |= {file_id: CoveredSlice.of(slices[file_id], pending.get(file_id, ())) for file_id in found.read}
        self.manifest = self.manifest.with_partition(partition_path, PartitionState(generation, covered))
        self._put_first([digest for digest, _ in files])
        return loaded

    def merge(self) -> int:
        """Merge runs if there are too many; how many were merged. The old ones stay where older manifests name them."""
        chosen = runs_to_merge([len(run) for run in self._runs])
        if not chosen:
            return 0
        everything = len(chosen) == len(self._runs)
        merger = RunMerger(self.local.folder, self.store.table_id)
        files = merger.merge(
            [self._runs[number] for number in chosen], self.manifest.generations, keep_removals=not everything
        )
        for digest, file in files:
            self.store.put_run(digest, file)
        self._runs = self._runs[chosen.stop :]
        self.manifest = replace(self.manifest, runs=self.manifest.runs[chosen.stop :])
        self._put_first([digest for digest, _ in files])
        return len(chosen)

    def publish(self, instant: str, view: str) -> None:
        """Store the state as that after this completed instant; `view`: the newest completion time that it knows.

        If another process has stored one for this instant, that one stays: each is compared with the table's files
        before it is used.
        """
        self.manifest = replace(self.manifest, view=view)
        self.store.put_manifest(instant, self.manifest)

    def _put_first(self, digests: list[str]) -> None:
        """These runs are the newest ones."""
        self._runs = [*(self.local.get(digest, self.store.get_run) for digest in digests), *self._runs]
        self.manifest = replace(self.manifest, runs=(*digests, *self.manifest.runs))
        self._look_ups.clear()

    def _slices(self, partition_path: str, generation: int) -> list[RunSlice]:
        """The partition's entries of this generation, newest run first."""
        slices = [run.slices[partition_path] for run in self._runs if partition_path in run.slices]
        return [each for each in slices if each.generation == generation]

    def _forget(self, partition_path: str) -> None:
        self.manifest = self.manifest.without(partition_path)
        self._look_ups.pop(partition_path, None)


def _is_mostly_new(known: PartitionState, found: Difference, slices: Mapping[str, FileSlice]) -> bool:
    """Whether most of the partition's groups are new or gone, and most of its bytes must be read: then all are read.
    When small groups are merged, many are gone, and little must be read.
    """
    read = sum(slices[file_id].size for file_id in found.read)
    return 2 * len(found.stale) > len(known.covered) and 2 * read >= sum(each.size for each in slices.values())


def _parts(
    known: PartitionState,
    found: Difference,
    slices: Mapping[str, FileSlice],
    new_logs: Mapping[str, Collection[str]],
    pending: Pending,
) -> dict[str, FileSlice]:
    """Of groups that only got log files, those alone: the keys of the others are known."""
    parts = {}
    for file_id in found.added:
        before, latest = known.covered.get(file_id), slices[file_id]
        logs = tuple(log for log in latest.log_files if str(log.name) in new_logs.get(file_id, ()))
        now = CoveredSlice.of(latest, pending.get(file_id, ()))
        if before is not None and before.with_logs(str(log.name) for log in logs) == now:
            parts[file_id] = replace(latest, base_file=None, log_files=logs)
    return parts


def _counts(found: Difference) -> dict[str, int]:
    return {"added": len(found.added), "rewritten": len(found.rewritten), "gone": len(found.gone)}


_PIECE: Final = 1 << 20


def write_removals(
    slices: Sequence[RunSlice],
    stale: Collection[str],
    folder: pathlib.Path,
    table_id: bytes,
    *,
    now: Sequence[RunSlice] = (),
) -> list[NewFile]:
    """Runs, newer than all of `slices`, in which the keys of the stale file groups are in no group.

    slices: the partition's, newest first, of one generation. stale: file ids. now: what is newer still, with the keys
    that these groups have now, and those that are in other groups since: they need no removal.
    """
    before, after = PartitionLookUp.of(slices), PartitionLookUp.of(now)
    is_stale = np.array([file_id in stale for file_id in before.groups], np.bool_)
    files = []
    for each in slices:
        with RunWriter(folder, table_id) as writer:
            writer.start_slice(each.partition_path, each.generation, [])
            for keys in _keys_of(each, stale):
                found = before.find(keys)
                # A newer run may have the key in another group, where it stays.
                removed = found != UNKNOWN
                removed[removed] = is_stale[found[removed]]
                removed &= after.find(keys) == UNKNOWN
                if removed.any():
                    writer.add(Entries.of(keys.take(np.flatnonzero(removed)), NO_GROUP))
            if writer.count:
                files.append(writer.finish())
    return files


def _keys_of(run: RunSlice, file_ids: Collection[str]) -> Iterator[KeyHashes]:
    """The keys that this run has in these file groups, in its order, a bounded number at a time."""
    wanted = np.array([file_id in file_ids for file_id in run.groups], np.bool_)
    if not wanted.any():
        return
    for start in range(0, len(run), _PIECE):
        entries = run.entries.take(slice(start, start + _PIECE))
        rows = np.flatnonzero(entries.groups != NO_GROUP)
        chosen = entries.take(rows[wanted[entries.groups[rows]]])
        yield KeyHashes(chosen.hashes, chosen.checks)
