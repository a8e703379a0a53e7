"""Bucket rules that another writer changes while a job runs: no key gets two places."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import (
    FIRST_INSTANT,
    HashingConfig,
)
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.index.errors import BucketLayoutMismatch
from bucketingest.write.errors import InstantAborted
from bucketingest.write.instants.bucket_groups import BucketGroups
from support.simulation.records import container
from support.tables.bucket_rules import DEFAULT, check, counts_of, places, rows
from support.tables.other_writers import next_time
from support.tables.table_runs import Attempt, TestTable, offsets


def rescale(table: TestTable, attempt: Attempt, partition: str, buckets: int, *, then: Any = None) -> None:
    """What Hudi's rescale of a partition leaves on the timeline: its file groups replaced, and rules for it."""
    time = next_time(table)
    create_requested(table.storage, time, REPLACE_COMMIT, b"")
    create_inflight(table.storage, time, REPLACE_COMMIT)
    counts = BucketCounts(DEFAULT, (BucketRule(f"^{partition}$", buckets), *counts_of(table).rules))
    config = HashingConfig(time, counts)
    table.storage.create(config.path, config.encode())
    if then is not None:
        then()
    groups = attempt.coordinator._writer.groups
    assert isinstance(groups, BucketGroups)
    replaced = {partition: list(groups.index.groups.get(partition, {}).values())}
    record = {"partitionToWriteStats": {}, "partitionToReplaceFileIds": replaced}
    content = container("HoodieReplaceCommitMetadata", record)
    complete(table.storage, time, next_time(table), content, REPLACE_COMMIT)


def test_a_running_job_follows_hudis_rescale_from_its_completion_on(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 20), rows("us"))
    rescale(table, attempt, "us", 9, then=lambda: attempt.run(offsets(20, 40), rows("eu")))
    attempt.run(offsets(40, 60), rows("us"))
    assert max(places(table)["us"]) > 3
    assert max(places(table)["eu"]) <= 3


def test_rows_that_a_rescale_overtakes_are_placed_again(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 20), rows("eu"))
    with pytest.raises(InstantAborted, match="changed the bucket count of partition 'us' meanwhile"):
        attempt.run(offsets(20, 40), rows("us"), lambda: rescale(table, attempt, "us", 9))
    attempt.run(offsets(20, 40), rows("us"))
    check(table, 40)
    assert max(places(table)["us"]) > 3


def test_rows_of_an_attempt_that_ended_before_a_rescale_are_placed_again(table: TestTable) -> None:
    hour = timedelta(hours=1)
    first = table.attempt(commit_interval=hour)
    first.run(offsets(0, 20), rows("us"))
    rescale(table, first, "us", 9)
    second = table.attempt(commit_interval=hour)
    assert second.coordinator.position is None
    table.attempt().go_on((offsets(0, 20), rows("us")))
    check(table, 20)
    assert max(places(table)["us"]) > 3


def test_rules_that_change_a_filled_partition_without_rewriting_it_end_the_job_before_a_commit(
    table: TestTable,
) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 20), rows("us"))
    config = HashingConfig(FIRST_INSTANT, BucketCounts(DEFAULT, (BucketRule("^us", 16),)))
    table.storage.create(config.path, config.encode())
    before = table.completed()
    with pytest.raises(BucketLayoutMismatch, match=r"partition 'us' has rows in 4 buckets, .* now give it 16"):
        attempt.run(offsets(20, 40), rows("us", start=20))
    assert table.completed() == before
