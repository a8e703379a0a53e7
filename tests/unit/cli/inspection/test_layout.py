"""Sizes and skew of file groups."""

from datetime import UTC, datetime

import pytest

from bucketingest.cli.inspection.layout import files_report, sizes_of
from bucketingest.cli.inspection.report import Sizes
from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.table.file_view import FileView, build_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import ObjectInfo

TIME = "20261121081710000"
TIMELINE = Timeline.of_file_names([f"{TIME}_20261121081711000.deltacommit"])


def view_of(sizes: dict[tuple[str, int], int]) -> FileView:
    """Sizes in bytes by (partition path, bucket)."""
    names = {key: str(LogFileName(deterministic_file_id(key[1]), TIME, 1)) for key in sizes}
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    objects = [ObjectInfo(f"{key[0]}/{names[key]}", size, moment, None) for key, size in sizes.items()]
    return build_file_view(objects, TIMELINE)


def test_the_skew_is_of_buckets_over_all_partitions() -> None:
    report = files_report(view_of({("a", 0): 10, ("b", 0): 50, ("a", 1): 20, ("b", 2): 20}))
    assert report.bucket_skew == 3.0
    assert (report.partitions, report.file_groups, report.log_files, report.base_files) == (2, 4, 4, 0)


def test_the_five_largest_are_named_largest_first() -> None:
    report = files_report(view_of({("a", bucket): 100 - bucket for bucket in range(8)}))
    assert [group.size_bytes for group in report.largest] == [100, 99, 98, 97, 96]
    assert report.largest[0].file_id == deterministic_file_id(0)


def test_a_replaced_file_group_does_not_count() -> None:
    view = view_of({("a", 0): 10, ("a", 1): 1000})
    report = files_report(view, {("a", deterministic_file_id(1))})
    assert report.sizes is not None
    assert report.sizes.total == 10


def test_an_empty_table_has_no_sizes() -> None:
    report = files_report(view_of({}))
    assert (report.file_groups, report.sizes, report.bucket_skew) == (0, None, None)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([7], Sizes(7, 7, 7, 7, 7)),
        ([3, 1, 2], Sizes(6, 1, 2, 3, 3)),
        (list(range(1, 101)), Sizes(5050, 1, 50, 99, 100)),
        (list(range(1, 1001)), Sizes(500500, 1, 500, 990, 1000)),
    ],
    ids=["one", "three", "hundred", "thousand"],
)
def test_percentiles_are_values_that_occur(sizes: list[int], expected: Sizes) -> None:
    assert sizes_of(sizes) == expected


def test_the_skew_is_of_partitions_with_one_bucket_count() -> None:
    sizes = {("old", 0): 40, ("old", 1): 40, **{("new", bucket): 10 for bucket in range(8)}}
    assert files_report(view_of(sizes)).bucket_skew == 5.0
    report = files_report(view_of(sizes), rules=BucketCounts(2, (BucketRule("new", 8),)))
    assert report.bucket_skew == 1.0
    assert report.bucket_counts == {"new": 8, "old": 2}
