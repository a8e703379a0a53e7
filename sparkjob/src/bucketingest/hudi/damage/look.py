"""Looks whether the data files that the timeline's commits name are there in full."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from bucketingest.hudi.damage.compare import Comparison, Damaged, NamedFile
from bucketingest.hudi.history.archived import OPEN_FOR
from bucketingest.hudi.naming import join
from bucketingest.hudi.plans.replaced import replaced_file_groups, replaced_since
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.table.file_view import FileView, Group, load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

BYTES_MAX: Final = 1024**3
"""Of commits that one look reads, the newest first: they name some four million files."""

ComesAgain: TypeAlias = Callable[[Storage], Collection[str]]
"""Finds request times of deltacommits whose rows count as not in the table, as they come again in others, or have. Only
pipelines know them.
"""


@dataclass(frozen=True, slots=True)
class DamageLook:
    """What a look found."""

    damaged: tuple[Damaged, ...] = ()
    """By path."""
    since: str | None = None
    """Completion time of the oldest commit that was compared; None: there was none."""

    @property
    def groups(self) -> frozenset[Group]:
        """File groups that lack rows."""
        return frozenset(each.group for each in self.damaged)


def look_for_damage(
    storage: Storage,
    timeline: Timeline,
    view: FileView,
    replaced: Collection[Group],
    comes_again: ComesAgain,
    *,
    only: Collection[Group] | None = None,
    bytes_max: int = BYTES_MAX,
) -> DamageLook:
    """Compare the completed commits of the timeline with the view, which was loaded after it.

    `only`: the file groups that are compared; None: all. Opens each commit that may name a file of a newest slice: only
    commits on the active timeline. What seems damaged is looked at a second time, since another process may have
    superseded and deleted it meanwhile. A file that a rollback deletes is not damaged, nor one of `comes_again`, nor
    one of a file group that was replaced, also if what replaced it is archived.
    Raises InvalidTable for a commit that cannot be read.
    """
    comparison = Comparison(view, replaced, only)
    since = _compare(storage, _concerned(timeline, view, only), comparison, bytes_max)
    found = comparison.damaged()
    return DamageLook(_still_damaged(storage, found, comes_again) if found else (), since)


def damage_of_table(storage: Storage, comes_again: ComesAgain) -> tuple[Damaged, ...]:
    """The damaged files of the whole table. Lists it, and raises as `look_for_damage`."""
    timeline = Timeline.load(storage)
    view = load_file_view(storage, timeline)
    return look_for_damage(storage, timeline, view, replaced_file_groups(storage, timeline), comes_again).damaged


def _concerned(timeline: Timeline, view: FileView, only: Collection[Group] | None) -> tuple[Instant, ...]:
    """Commits that may name a file of the newest slice of one of the groups, by completion time."""
    if only is None:
        return timeline.completed_commits
    groups = [view.partitions.get(partition_path, {}).get(file_id) for partition_path, file_id in only]
    begins = [each.latest.base_instant for each in groups if each is not None and each.latest is not None]
    oldest = min(begins, default="")
    return tuple(each for each in timeline.completed_commits if (each.completion_time or "") >= oldest)


def _compare(storage: Storage, commits: Iterable[Instant], comparison: Comparison, bytes_max: int) -> str | None:
    """Returns the completion time of the oldest commit that was compared."""
    since, read = None, 0
    for instant in reversed(tuple(commits)):
        try:
            data = storage.get(path_of(instant))
        except NotFound:  # archived, or rolled back, since the timeline was loaded
            continue
        read += len(data)
        if read > bytes_max and since is not None:
            break
        comparison.add(_named(data, instant))
        since = instant.completion_time
    return since


def _named(data: bytes, instant: Instant) -> Iterator[NamedFile]:
    for file in CommitMetadata.decode_files(data, path_of(instant)):
        path, completion_time = join(file.partition_path, file.name), instant.completion_time or ""
        yield NamedFile(path, file.size, file.rows, instant.request_time, completion_time)


def _still_damaged(storage: Storage, damaged: Collection[Damaged], comes_again: ComesAgain) -> tuple[Damaged, ...]:
    timeline = Timeline.load(storage)
    view = load_file_view(storage, timeline, sorted({each.group[0] for each in damaged}))
    groups = {each.group for each in damaged}
    times, paths = {each.file.instant for each in damaged}, {each.file.path for each in damaged}
    # The archive goes by request times. That of a clustering may be before that of a commit that it merged.
    first = format_time(parse_time(min(times)) - OPEN_FOR)
    comparison = Comparison(view, replaced_since(storage, timeline, first), groups)
    # A compaction may be carried out again after its rollback.
    gone = {*rollback_targets(storage, timeline), *comes_again(storage)}
    commits = (
        each
        for each in timeline.completed_commits
        if each.request_time in times and (each.action != DELTA_COMMIT or each.request_time not in gone)
    )
    _compare(storage, commits, comparison, BYTES_MAX)
    return tuple(each for each in comparison.damaged() if each.file.path in paths)
