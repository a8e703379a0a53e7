"""How a table's bytes lie: file groups, slices, sizes, and whether one bucket has much more than the others. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from statistics import median_low
from typing import Final

from bucketingest.cli.inspection.report import FileGroupSize, Files, Sizes
from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.hudi.table.file_view import FileGroup, FileView

_LARGEST_SHOWN: Final = 5


def files_report(
    view: FileView, replaced: Collection[tuple[str, str]] = frozenset(), rules: BucketCounts | None = None
) -> Files:
    """The file groups of a view without the replaced ones."""
    groups = current_groups(view, replaced)
    paths = sorted({group.partition_path for group in groups})
    counts = {} if rules is None else dict(zip(paths, rules.of_all(paths).tolist(), strict=True))
    latest = [(group, group.slices[-1]) for group in groups]
    sizes = [FileGroupSize(g.partition_path, g.file_id, s.size, len(s.log_files)) for g, s in latest]
    return Files(
        partitions=len(paths),
        file_groups=len(groups),
        slices=sum(len(group.slices) for group in groups),
        base_files=sum(1 for _, each in latest if each.base_file is not None),
        log_files=sum(len(each.log_files) for _, each in latest),
        sizes=sizes_of([each.size_bytes for each in sizes]),
        all_bytes=sum(each.size for group in groups for each in group.slices),
        bucket_skew=_skew(sizes, counts),
        bucket_counts=counts,
        largest=tuple(
            sorted(sizes, key=lambda each: (-each.size_bytes, each.partition_path, each.file_id))[:_LARGEST_SHOWN]
        ),
    )


def current_groups(view: FileView, replaced: Collection[tuple[str, str]]) -> list[FileGroup]:
    """File groups with committed files that no replacecommit took out of the table."""
    return [group for group in view.groups if group.slices and (group.partition_path, group.file_id) not in replaced]


def sizes_of(sizes: Sequence[int]) -> Sizes | None:
    """Their distribution; None if there are none. Percentiles are values that occur (nearest rank)."""
    if not sizes:
        return None
    ordered = sorted(sizes)
    p99 = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    return Sizes(sum(ordered), ordered[0], median_low(ordered), p99, ordered[-1])


def _skew(groups: Sequence[FileGroupSize], counts: Mapping[str, int]) -> float | None:
    """Largest bucket by median bucket, each over all partitions of one bucket count; None if there are no buckets, or
    no bytes.
    """
    by_count: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for group in groups:
        try:
            by_count[counts.get(group.partition_path, 0)][bucket_of_file_id(group.file_id)] += group.size_bytes
        except InvalidName:
            return None
    spreads = [sizes_of(list(buckets.values())) for buckets in by_count.values()]
    return max((each.largest / each.median for each in spreads if each is not None and each.median), default=None)
