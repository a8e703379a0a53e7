"""Bucket rules that change: partitions that exist keep their count, and no key gets two places.

Placement is judged by the rows of the table: each must be in the bucket that the rules in force say.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import (
    ARCHIVE_DIRECTORY,
    CONFIG_DIRECTORY,
    FIRST_INSTANT,
    HashingConfig,
    instants_in,
    path_of_config,
)
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.timeline.instant import COMPACTION, DELTA_COMMIT, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.spec.partition_pattern import literal_pattern
from bucketingest.write import bucket_rules as module
from bucketingest.write.bucket_rules import rules_for, settle_rules
from bucketingest.write.errors import RulesConflict
from support.simulation.records import container
from support.storage.crashing_storage import Crash
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.bucket_rules import ALL, DEFAULT, check, counts_of, places, rows, with_rules
from support.tables.other_writers import next_time
from support.tables.table_runs import TestTable, offsets


def test_partitions_to_come_get_the_count_of_the_first_rule_and_existing_ones_keep_theirs(table: TestTable) -> None:
    table.attempt().run(offsets(0, 20), rows("eu"))
    with_rules(table, ("^u", 16), (".*", 9))
    attempt = table.attempt()
    attempt.run(offsets(20, 80), [*rows("us"), *rows("jp"), *rows("eu", start=20)])
    check(table, 80)
    assert [counts_of(table).of(each) for each in ("eu", "us", "jp")] == [4, 16, 9]
    assert max(places(table)["us"]) > 9
    assert max(places(table)["jp"]) > 3
    assert instants_in(table.storage) == [FIRST_INSTANT]


def test_a_new_table_has_its_rules_before_its_first_row(table: TestTable) -> None:
    with_rules(table, ("^eu$", 9))
    table.attempt().run(offsets(0, 40), [*rows("eu"), *rows("us")])
    check(table, 40)
    assert max(places(table)["eu"]) > 3 >= max(places(table)["us"])


@pytest.mark.parametrize(
    "edited",
    [
        [],
        [("^us", 2), ("^j", 9)],
        [("^j", 9), ("^us", 16)],
        [("^j", 2)],
        [(literal_pattern("us"), 5)],
        [(literal_pattern("new"), 5)],
        [("^new", 1), ("", 3)],
    ],
    ids=["removed", "lowered", "reordered", "another", "a rule for one", "for a new one", "for all"],
)
def test_a_partition_keeps_the_count_that_it_began_with_whatever_is_edited(
    table: TestTable, edited: list[tuple[str, int]]
) -> None:
    with_rules(table, ("^us", 16), ("^j", 9))
    table.attempt().run(offsets(0, 60), [*rows("us"), *rows("jp"), *rows("eu")])
    with_rules(table, *edited)
    table.attempt().run(offsets(60, 120), [*rows("us", start=20), *rows("jp", start=20), *rows("new")])
    check(table, 120)
    assert [counts_of(table).of(each) for each in ("us", "jp", "eu")] == [16, 9, 4]
    wanted = BucketCounts(DEFAULT, tuple(BucketRule(*each) for each in edited))
    assert [counts_of(table).of(each) for each in ("new", "later")] == [wanted.of("new"), wanted.of("later")]
    assert len(instants_in(table.storage)) == 2


def test_rules_that_are_not_mentioned_stay(table: TestTable) -> None:
    with_rules(table, ("^us", 16))
    table.attempt().run(offsets(0, 20), rows("us"))
    table.definition = replace(table.definition, bucket_rules=None)
    table.attempt().run(offsets(20, 40), rows("usa"))
    check(table, 40)
    assert counts_of(table).of("us-west") == 16


def test_the_same_rules_again_write_nothing(table: TestTable) -> None:
    with_rules(table, ("^us", 16))
    table.attempt()
    written = table.storage.get(path_of_config(FIRST_INSTANT))
    settle_rules(table.storage, table.definition, _no_lock)
    assert (instants_in(table.storage), table.storage.get(path_of_config(FIRST_INSTANT))) == ([FIRST_INSTANT], written)


def _no_lock() -> Any:
    raise AssertionError("the lock was taken")


def test_no_rules_for_a_table_without_rules_make_no_config(table: TestTable) -> None:
    with_rules(table)
    table.attempt()
    assert instants_in(table.storage) == []


def test_rules_with_hudis_own_text_are_the_same(table: TestTable) -> None:
    table.attempt()
    config = HashingConfig(FIRST_INSTANT, BucketCounts(DEFAULT, (BucketRule("^us", 16),)))
    table.storage.create(config.path, config.encode())
    with_rules(table, ("^us", 16))
    table.attempt()
    assert instants_in(table.storage) == [FIRST_INSTANT]


def test_an_answer_that_is_lost_is_no_conflict(table: TestTable) -> None:
    with_rules(table, ("^us", 16))
    storage = FlakyStorage(table.storage, lambda path: path.startswith(CONFIG_DIRECTORY), after_effect=True)
    with pytest.raises(Exception, match="503"):
        table.attempt(storage)
    table.attempt()
    assert instants_in(table.storage) == [FIRST_INSTANT]


def test_an_open_instant_of_the_old_rules_is_committed_with_its_partitions_counts(table: TestTable) -> None:
    hour = timedelta(hours=1)
    table.attempt(commit_interval=hour).run(offsets(0, 20), rows("eu"))
    with_rules(table, ("", 16))
    second = table.attempt(commit_interval=hour)
    second.run(offsets(20, 60), [*rows("eu", start=20), *rows("us")])
    assert second.coordinator.commit_open() is not None
    check(table, 60)
    assert [counts_of(table).of(each) for each in ("eu", "us")] == [4, 16]


@pytest.mark.parametrize("action", [DELTA_COMMIT, REPLACE_COMMIT])
def test_rules_are_not_changed_while_another_writer_is_at_work(table: TestTable, action: str) -> None:
    table.attempt()
    time = next_time(table)
    create_requested(table.storage, time, action, b"")
    with_rules(table, ("^us", 16))
    with pytest.raises(RulesConflict, match=rf"{time}\.{action}\.requested is pending") as ended:
        table.attempt()
    assert ended.value.exit_code is ExitCode.WRITE_CONFLICT
    assert instants_in(table.storage) == []
    create_inflight(table.storage, time, action)
    content = container("HoodieReplaceCommitMetadata", {"partitionToWriteStats": {}, "partitionToReplaceFileIds": {}})
    complete(table.storage, time, next_time(table), content if action == REPLACE_COMMIT else b"", action)
    table.attempt()
    assert instants_in(table.storage) == [FIRST_INSTANT]


def test_a_pending_compaction_makes_no_partition_and_does_not_matter(table: TestTable) -> None:
    table.attempt()
    create_requested(table.storage, next_time(table), COMPACTION, container("HoodieCompactionPlan", {"operations": []}))
    with_rules(table, ("^us", 16))
    settle_rules(table.storage, table.definition, nullcontext)
    assert instants_in(table.storage) == [FIRST_INSTANT]


def test_of_two_changes_at_once_one_ends_in_a_conflict(table: TestTable) -> None:
    table.attempt()

    class Late(PassingStorage):
        """Another writer's rules come right before ours."""

        def create(self, path: str, data: Any) -> None:
            if path.startswith(CONFIG_DIRECTORY):
                other = HashingConfig(next_time(table), BucketCounts(DEFAULT, (BucketRule("^j", 2),)))
                table.storage.create(other.path, other.encode())
            super().create(path, data)

    with_rules(table, ("^us", 16))
    with pytest.raises(RulesConflict, match="another writer changes the bucket rules"):
        table.attempt(Late(table.storage))
    table.attempt().run(offsets(0, 20), rows("us"))
    check(table, 20)
    assert [counts_of(table).of(each) for each in ("us", "jp")] == [16, 4]


def test_the_lease_is_checked_right_before_the_rules_are_written(table: TestTable) -> None:
    table.attempt()
    with_rules(table, ("^us", 16))

    def lost() -> None:
        raise Crash

    with pytest.raises(Crash):
        settle_rules(table.storage, table.definition, nullcontext, lost)
    assert instants_in(table.storage) == []


def test_too_many_partitions_that_would_have_to_be_kept_are_refused(
    table: TestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.attempt().run(offsets(0, 40), [*rows("eu"), *rows("us")])
    monkeypatch.setattr(module, "KEPT_MAX", 1)
    with_rules(table, ("", 16))
    with pytest.raises(UnsupportedTable, match=r"needs 2 more rules .* at most 1 .* found in partitions to come only"):
        table.attempt()
    with_rules(table, ("eu", 16))
    table.attempt()


def test_rules_that_a_new_default_would_contradict_are_refused(table: TestTable) -> None:
    config = HashingConfig(FIRST_INSTANT, BucketCounts(DEFAULT + 1, (BucketRule("^us", 16),)))
    table.attempt()
    table.storage.create(config.path, config.encode())
    with pytest.raises(UnsupportedTable, match="defaultBucketNumber is 5"):
        table.attempt()


def test_the_next_rules_are_newer_than_archived_ones(table: TestTable) -> None:
    table.attempt()
    archived = HashingConfig("29990101000000000", BucketCounts(DEFAULT, (ALL,)))
    table.storage.create(path_of_config(archived.instant, ARCHIVE_DIRECTORY), archived.encode())
    with_rules(table, ("^us", 16))
    table.attempt()
    assert instants_in(table.storage) == ["29990101000000001"]


def test_rules_are_not_given_the_time_of_an_instant_which_could_hide_them(table: TestTable) -> None:
    with_rules(table, ("^us", 16))
    table.attempt()
    with_rules(table)
    create_requested(table.storage, "00000000000001", COMPACTION, container("HoodieCompactionPlan", {"operations": []}))
    settle_rules(table.storage, table.definition, nullcontext)
    assert instants_in(table.storage) == [FIRST_INSTANT, "00000000000002"]


def test_rules_that_keep_all_counts_are_as_short_as_the_wish() -> None:
    now = BucketCounts(4, (BucketRule("^us", 16), ALL))
    assert rules_for(["us", "eu"], now, (BucketRule("^us", 16),)) == ((BucketRule("^us", 16), ALL), 0)
    kept = (BucketRule(literal_pattern("eu"), 4), BucketRule(literal_pattern("us"), 16))
    assert rules_for(["us", "eu"], now, (BucketRule("", 2),)) == ((*kept, BucketRule("", 2), ALL), 2)
