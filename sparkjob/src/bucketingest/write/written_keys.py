"""What commits say of the keys in the files that they wrote. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.table.table import INDEX_TYPE, STATE_INDEX
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.table_groups import Group

Logs = Mapping[Group, Sequence[str]]
"""Names of log files."""


def logs_of(commits: Iterable[CommitMetadata]) -> Logs:
    """Every log file that the commits name."""
    return _by_group(_logs(commits))


def logs_of_known_keys(commits: Iterable[CommitMetadata], *, deletes: bool) -> Logs:
    """Log files of our commits whose rows have known keys. `deletes`: also those with deletes."""
    found = _logs(_ours(commits))
    return _by_group(each for each in found if not each[1].num_inserts and (deletes or not each[1].num_deletes))


def logs_of_new_keys(commits: Iterable[CommitMetadata]) -> Logs:
    """Log files of our commits that have rows of new keys."""
    return _by_group(each for each in _logs(_ours(commits)) if each[1].num_inserts)


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
