"""Changes a table's bucket rules at a start, and checks that rows are where the rules say: partitions that exist keep
their bucket count, only those to come get another.

One file, created if absent under the table's lock, holds all rules, so a crash leaves the old rules or the new ones.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from typing import Final

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import (
    ARCHIVE_DIRECTORY,
    CONFIG_BYTES_MAX,
    FIRST_INSTANT,
    HashingConfig,
    TableRules,
    counts_at,
    instants_in,
    load_rules,
)
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.file_view import FileView, Group, load_file_view
from bucketingest.hudi.table.key_sample import sample_partitions
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, DELTA_COMMIT, REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import TIME_LENGTH, format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.index.layout_check import verify_bucket_layout
from bucketingest.index.row_rules import RowRules
from bucketingest.spec.partition_pattern import literal_pattern
from bucketingest.storage import NotFound, Storage, created
from bucketingest.write.errors import RulesConflict
from bucketingest.write.pipeline_names import PIPELINE

log = logging.getLogger(__name__)

OLDER_MAX: Final = 32
"""Partitions that are looked at because they seem older than the rules: a copy of a table has new dates."""
NEWEST_MAX: Final = 16
KEPT_MAX: Final = 10_000
"""Partitions that keep another count than the rules give. Hudi searches all rules for each partition."""


def settle_rules(
    storage: Storage,
    definition: TableDefinition,
    lock: Lock,
    check_lease: Callable[[], None] = lambda: None,
) -> TableRules:
    """The bucket counts of the table, after its rules were made those of the definition. May be repeated after a crash.

    Raises UnsupportedTable: the rules cannot be taken or kept. Raises RulesConflict while another writer is at work:
    partitions that it makes now would have the count of the old rules.
    """
    current = load_rules(storage, definition.buckets)
    if not _differ(current, definition):
        return current
    with lock():
        current = load_rules(storage, definition.buckets)
        if not _differ(current, definition):
            return current
        config = _next(storage, definition, current)
        check_lease()  # last: nothing slow happens between this and the file
        if not created(storage, config.path, config.encode()):  # our own, whose answer was lost, or another writer's
            log.warning("bucket rules exist", extra={"config": config.path})
        changed = load_rules(storage, definition.buckets)
        if changed.config != config:
            raise RulesConflict(f"{storage.url}: another writer changes the bucket rules, too: {changed.instant}")
    extra = {"config": config.path, "kept": config.kept, "rules": len(config.wanted)}
    log.warning("bucket rules changed", extra=extra)
    return changed


def verify_placement(
    storage: Storage, table_rules: TableRules, rules: RowRules, view: FileView, replaced: Collection[Group]
) -> None:
    """Check record keys of partitions to which the rules in force give another count than those before did.

    Only the rows say by which rules a partition was filled: a file of rules that was created late does not keep the
    partitions that came meanwhile, and another writer may have cached older rules. Raises BucketLayoutMismatch.
    """
    config = table_rules.config
    if config is None:
        return
    before = _counts_before(storage, config)
    chosen = _worth_a_look(storage, config, before, view, replaced)
    samples: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, path, file_id in sample_partitions(storage, view, chosen, replaced):
        samples[path].append((key, file_id))
    for path, pairs in samples.items():
        remedy = (
            f"They are of partition {path!r}, whose {config.counts.of(path)} buckets are from {config.path}; the rules "
            f"before gave it {before.of(path)}. If all its rows are in {before.of(path)} buckets, delete that file "
            "before anything else is written: it came late. Else another writer used older rules: stop it, and rewrite "
            "the partition with Hudi's insert_overwrite"
        )
        verify_bucket_layout(pairs, rules.record_key, config.counts.of(path), rules.hash, remedy)


def _counts_before(storage: Storage, config: HashingConfig) -> BucketCounts:
    """By the rules that the ones in force replaced; without such, every partition had the table's count."""
    older = [
        each for each in (*instants_in(storage), *instants_in(storage, ARCHIVE_DIRECTORY)) if each < config.instant
    ]
    found = counts_at(storage, max(older, default=""), config.counts.default)
    return found or BucketCounts(config.counts.default)


def _worth_a_look(
    storage: Storage, config: HashingConfig, before: BucketCounts, view: FileView, replaced: Collection[Group]
) -> list[str]:
    """Partitions whose count the rules changed: those that are older than the rules, and the newest ones."""
    began = {
        path: min(file.instant for group in groups.values() for each in group.slices for file in each.files)
        for path, groups in view.partitions.items()
        if any(group.slices and (path, group.file_id) not in replaced for group in groups.values())
    }
    paths = sorted(began, key=lambda path: (began[path], path))
    pairs = zip(paths, before.of_all(paths).tolist(), config.counts.of_all(paths).tolist(), strict=True)
    changed = [path for path, old, new in pairs if old != new]
    made = format_time(storage.head(config.path).modified)
    older = [path for path in changed if began[path] < made]
    return list(dict.fromkeys((*older[-OLDER_MAX:], *changed[-NEWEST_MAX:])))


def rules_for(
    partitions: Iterable[str], now: BucketCounts, wanted: Iterable[BucketRule]
) -> tuple[tuple[BucketRule, ...], int]:
    """The rules that give partitions to come the wanted counts, and these partitions the counts that they have now; and
    how many of them, from the first, are for the latter. Pure.
    """
    # Hudi 1.2.0 keeps rules for the whole JVM by their text alone, so another table's default would be used: the last
    # rule takes its place.
    rules = (*wanted, BucketRule(".*", now.default))
    paths = sorted(partitions)
    have, would_have = now.of_all(paths).tolist(), BucketCounts(now.default, rules).of_all(paths).tolist()
    changed = [(path, count) for path, count, other in zip(paths, have, would_have, strict=True) if count != other]
    kept = tuple(BucketRule(literal_pattern(path), count) for path, count in changed)
    return (*kept, *rules), len(kept)


def _differ(current: TableRules, definition: TableDefinition) -> bool:
    wanted = definition.bucket_rules
    if wanted is None:
        return False
    if current.config is None:
        return bool(wanted)
    return current.config.wanted not in (wanted, (*wanted, BucketRule(".*", definition.buckets)))


def _next(storage: Storage, definition: TableDefinition, current: TableRules) -> HashingConfig:
    timeline = Timeline.load(storage)
    if pending := next(_of_others(storage, timeline), None):
        raise RulesConflict(
            f"{storage.url}: the bucket rules cannot be changed while another writer is at work: its instant "
            f"{pending.file_name} is pending, and partitions that it makes have the count of the old rules; start "
            "again when it has ended, or roll it back"
        )
    view = load_file_view(storage, timeline)
    existing = {*view.partitions, *view.marked_partitions}
    rules, kept = rules_for(existing, current.counts, definition.bucket_rules or ())
    config = HashingConfig(_next_instant(storage, timeline), BucketCounts(definition.buckets, rules), kept)
    config.counts.check()
    size = len(config.encode())
    if kept > KEPT_MAX or size > CONFIG_BYTES_MAX:
        reason = (
            f"spec.table.index.partitionBuckets needs {kept} more rules ({size} bytes), for partitions that exist and "
            f"keep their count: at most {KEPT_MAX} ({CONFIG_BYTES_MAX} bytes) are allowed; use patterns that are found "
            "in partitions to come only"
        )
        raise UnsupportedTable(storage.url, [reason])
    return config


def _next_instant(storage: Storage, timeline: Timeline) -> str:
    """The smallest after those of all other rules: a rescale of Hudi's, whatever its clock says, has a later one.

    Existing partitions keep their counts, so new rules hold for time travel, too, however far back.
    """
    newest = max([*instants_in(storage), *instants_in(storage, ARCHIVE_DIRECTORY)], default=None)
    if newest is None:
        return FIRST_INSTANT
    instant = _after(newest)
    while instant in timeline.times:  # while a rescale of this time is pending, the file would not count
        instant = _after(instant)
    return instant


def _after(instant: str) -> str:
    if len(instant) == TIME_LENGTH:
        return format_time(parse_time(instant) + timedelta(milliseconds=1))
    return f"{int(instant) + 1:0{len(instant)}d}"


def _of_others(storage: Storage, timeline: Timeline) -> Iterator[Instant]:
    """Pending instants that may make partitions, and are no pipeline's."""
    for instant in timeline.pending:
        if instant.action not in (COMMIT, DELTA_COMMIT, REPLACE_COMMIT):
            continue
        path = path_of(instant)
        try:
            if PIPELINE not in CommitMetadata.decode_extra(storage.get(path), path):
                yield instant
        except NotFound:  # it has just completed, so its partitions are among the files that are listed next
            continue
