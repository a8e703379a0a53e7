"""What commits say of the keys in the files that they wrote. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.table.file_view import FileGroup
from bucketingest.hudi.table.table import INDEX_TYPE, STATE_INDEX
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.state.coverage import CoveredSlice, PartitionState, Pending
from bucketingest.write.table_groups import Group

Logs = Mapping[Group, Sequence[str]]
"""Names of log files."""


def logs_of(commits: Iterable[CommitMetadata]) -> Logs:
    """Every log file that the commits name."""
    return _by_group(_logs(commits))


def logs_of_known_keys(commits: Iterable[CommitMetadata], instant: str, *, deletes: bool) -> Logs:
    """Log files of this instant of ours whose rows have keys that its plan knew. `deletes`: also those with deletes."""
    found = (
        (group, stat) for group, stat in _logs(commits) if not stat.num_inserts and (deletes or not stat.num_deletes)
    )
    return _by_group((group, stat) for group, stat in found if LogFileName.parse(_name(stat)).instant == instant)


def logs_of_new_keys(commits: Iterable[CommitMetadata]) -> Logs:
    """Log files of our commits that have rows of new keys."""
    return _by_group(each for each in _logs(_ours(commits)) if each[1].num_inserts)


def without_known_keys(
    known: PartitionState | None,
    planned: PartitionState | None,
    groups: Mapping[str, FileGroup],
    updates: Logs,
    new_logs: Logs,
    *,
    pending: Pending,
) -> tuple[PartitionState | None, dict[str, Sequence[str]]]:
    """Log files without new keys are covered without being read, if nothing else has happened to their file group since
    their instant was `planned`: a compaction may have forgotten a deleted key that comes again in them. Returns the
    other new ones by file id.
    """
    left = {name: new_logs.get((each.partition_path, each.file_id), ()) for name, each in groups.items()}
    if known is None or planned is None:
        return known, left
    covered = dict(known.covered)
    for name, group in groups.items():
        names, before = updates.get((group.partition_path, group.file_id)), covered.get(name)
        if not names or before is None or before != planned.covered.get(name) or group.latest is None:
            continue
        noted = {str(each.name) for each in group.latest.log_files}.intersection(names)
        others = {str(each.name) for each in group.latest.log_files}.intersection(left[name]) - noted
        after = before.with_logs(noted)
        if after.with_logs(others) == CoveredSlice.of(group.latest, pending.get(name, ())):
            covered[name], left[name] = after, tuple(others)
    return PartitionState(known.generation, covered), left


def stats_of(commits: Iterable[CommitMetadata]) -> list[WriteStat]:
    """Every file that the commits name."""
    return [stat for each in commits for of_path in each.write_stats.values() for stat in of_path]


def inserts_of(metadata: CommitMetadata) -> tuple[Counter[str], int]:
    """New keys of each partition, and the bytes of their rows."""
    if metadata.compacted:
        return Counter(), 0
    rows: Counter[str] = Counter()
    size = 0
    for path, stats in metadata.write_stats.items():
        for stat in stats:
            if stat.num_inserts:
                rows[path] += stat.num_inserts
                size += stat.file_size_in_bytes * stat.num_inserts // max(stat.num_writes, stat.num_inserts)
    return rows, size


def _ours(commits: Iterable[CommitMetadata]) -> Iterator[CommitMetadata]:
    return (each for each in commits if each.extra_metadata.get(INDEX_TYPE) == STATE_INDEX)


def _logs(commits: Iterable[CommitMetadata]) -> Iterator[tuple[Group, WriteStat]]:
    for metadata in commits:
        for path, stats in metadata.write_stats.items():
            for stat in stats:
                if LogFileName.try_parse(_name(stat)) is not None:
                    yield (path, stat.file_id), stat


def _by_group(logs: Iterable[tuple[Group, WriteStat]]) -> Logs:
    found: defaultdict[Group, list[str]] = defaultdict(list)
    for group, stat in logs:
        found[group].append(_name(stat))
    return found


def _name(stat: WriteStat) -> str:
    return (stat.path or "").rpartition("/")[2]
