"""The file groups of a table with a bucket index: their places follow from the bucket count alone."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from itertools import chain

from bucketingest.hudi.bucket_rules.hashing_config import counts_at, instants_in, load_rules
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.bucket_index import BucketIndex, FileIds
from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.storage import Storage
from bucketingest.write.instants.records import Intent, LedgerEntry
from bucketingest.write.open_table import OpenTable
from bucketingest.write.table_groups import Group

log = logging.getLogger(__name__)


class BucketGroups:
    """Implements `TableGroups`."""

    def __init__(self, opened: OpenTable) -> None:
        self._storage: Storage = opened.storage
        self._buckets = opened.definition.buckets
        self.index: BucketIndex = opened.index
        """Every file group that a completed instant wrote."""
        self._table_rules = opened.bucket_rules

    @property
    def file_ids(self) -> FileIds:
        """The part of the index that write tasks need."""
        return self.index.file_ids

    @property
    def fingerprint(self) -> str:
        """Of the file ids."""
        return self.index.file_ids.fingerprint

    @property
    def rules(self) -> str:
        """Instant of the bucket rules; "" without rules."""
        return self._table_rules.instant

    @property
    def state(self) -> None:
        """There is none."""

    def close_names(self, timeline: Timeline) -> None:
        """A key has the same file group when it comes again: older rows of it do no harm."""

    def prepare(self) -> None:
        """Nothing takes long."""

    def fold_in(self, timeline: Timeline, written: Sequence[Group], replaced: Collection[Group]) -> None:  # noqa: ARG002
        """Add the file groups, and take over rules that another writer changed. Raises as `BucketIndex.with_commit`."""
        self.index = self.index.without(replaced)
        self._learn_rules()
        index = self.index.with_commit(each for each in written if each not in replaced)
        self.index = index.avoiding(replaced)

    def plan(self, instant: str, sequence: int) -> None:  # noqa: ARG002
        """Nothing is recorded."""
        return

    def goes_on(self, instant: str, sequence: int) -> bool:  # noqa: ARG002
        """A bucket has one file group."""
        return True

    def resume(self, instant: str, started: Intent) -> bool:  # noqa: ARG002
        """The fingerprint says it all."""
        return True

    def refusal(self, timeline: Timeline, instant: str, entries: Sequence[LedgerEntry]) -> str | None:  # noqa: ARG002
        """Whether another writer changed a bucket count, or gave a bucket its first file group meanwhile. A pending
        clustering does not matter: Hudi 1.2.0 plans one of a table with buckets, and refuses to run it (seen).
        """
        if (recounted := self._recounted(entries)) is not None:
            return f"another writer changed the bucket count of partition {recounted!r} meanwhile"
        statuses = chain.from_iterable(entry.statuses for entry in entries)
        try:
            self.index.with_commit({(each.partition_path, each.file_id) for each in statuses if each.file_id})
        except DuplicateFileGroup as error:
            place = f"bucket {error.bucket} of partition {error.partition_path!r}"
            return f"another writer gave {place} file group {error.file_ids[0]} meanwhile"
        return None

    def load(self, partition_paths: Collection[str], *, everything: bool) -> None:
        """A row's bucket is known without loading."""

    def wrote(self, written: Collection[Group]) -> None:
        """Add the file groups."""
        self.index = self.index.with_commit(written)

    def _learn_rules(self) -> None:
        """Take over rules that another writer changed, as Hudi's rescale does when it has rewritten partitions."""
        if max(instants_in(self._storage), default="") == self._table_rules.instant:
            return
        rules = load_rules(self._storage, self._buckets)
        if rules == self._table_rules:
            return
        log.warning("bucket rules changed by another writer", extra={"config": rules.instant or None})
        self.index = self.index.with_counts(rules.counts)
        self._table_rules = rules

    def _recounted(self, entries: Sequence[LedgerEntry]) -> str | None:
        """A partition in which these rows were placed by another bucket count than the one it has now."""
        for instant in sorted({entry.bucket_rules for entry in entries} - {self._table_rules.instant}):
            statuses = chain.from_iterable(entry.statuses for entry in entries if entry.bucket_rules == instant)
            paths = sorted({status.partition_path for status in statuses if status.file_id})
            counts = counts_at(self._storage, instant, self._buckets)
            now = self._table_rules.counts.of_all(paths).tolist()
            then = [None] * len(paths) if counts is None else counts.of_all(paths).tolist()
            changed = (path for path, before, after in zip(paths, then, now, strict=True) if before != after)
            if (path := next(changed, None)) is not None:
                return path
        return None
