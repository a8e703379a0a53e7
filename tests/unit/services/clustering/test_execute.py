"""The base file that takes the place of several: its rows, what cannot be merged, and when nobody waits for it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.bloom_filter import FOOTER_KEY
from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.execute import DEADLINE_SECONDS, ClusteringExecutor
from bucketingest.services.clustering.records import ClusteringJournal, ClusteringPlan
from bucketingest.services.errors import RoundEnded
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage
from bucketingest.write.errors import NewerFormat
from bucketingest.write.instants.records import AbortDecision
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import later
from support.tables.services.clustered import PAIRS, cluster, clustering_holder, planned
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import insert_by_another, state_table
from support.tables.table_runs import offsets
from support.tables.write_plans import WITH_DELETES, row
from unit.services.clustering.conftest import Scattered


def started(storage: Storage, triggers: ClusteringTriggers = PAIRS) -> tuple[int, ClusteringPlan]:
    plan = planned(storage, triggers)
    assert plan is not None
    return clustering_holder(storage).begin(plan), plan


def test_the_base_file_has_each_key_once_as_hudis_bloom_index_needs_it(given: Scattered) -> None:
    number, plan = started(given.storage)
    ClusteringExecutor(given.storage, number).run()
    (path,) = plan.paths
    file = pq.ParquetFile(io.BytesIO(given.storage.get(path)))
    rows = file.read().to_pylist()
    assert sorted(each["_hoodie_record_key"] for each in rows) == ["k0", "k1", "k2", "k3", "k4"]
    assert {each["_hoodie_file_name"] for each in rows} == {path.rpartition("/")[2]}
    assert FOOTER_KEY.encode() in (file.metadata.metadata or {})
    (result,) = ClusteringJournal(given.storage).results(number) or ()
    assert result.stat is not None
    assert (result.stat.num_writes, result.stat.num_inserts) == (5, 0), "no new keys: they are not counted as expected"
    assert result.stat.file_size_in_bytes == given.storage.head(path).size


def test_rows_keep_the_times_of_their_commits(given: Scattered) -> None:
    """Incremental readers take the rows of a commit by these."""
    before = {key: each["_hoodie_commit_time"] for key, each in given.rows.items()}
    cluster(given.storage)
    assert {key: each["_hoodie_commit_time"] for key, each in snapshot(given.storage).items()} == before
    assert len(set(before.values())) == 3


def delete(given: Scattered, key: str) -> None:
    given.table.attempt().run(offsets(8, 9), [row(key, at=9, deleted=True)], schema=WITH_DELETES)


def test_a_deleted_key_is_gone_and_can_come_back(given: Scattered) -> None:
    delete(given, "k3")
    cluster(given.storage)
    assert "k3" not in snapshot(given.storage)
    given.table.attempt().run(offsets(9, 11), [row("k3", amount=5, at=10), row("k0", amount=6, at=10)])
    rows = snapshot(given.storage)
    assert (rows["k3"]["amount"], rows["k0"]["amount"]) == (5, 6)


def test_groups_with_a_key_in_common_are_not_merged() -> None:
    table = state_table(report_duplicates=True)
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    insert_by_another(table, [row("k0", at=2)])
    ended = cluster(table.storage)
    assert ended.end is End.VOID
    assert len(ended.kept) == 2
    (result,) = ClusteringJournal(table.storage).results(1) or ()
    assert result.failed is not None
    assert "1 keys are in two" in result.failed


def test_too_many_rows_for_one_comparison_are_not_merged(given: Scattered) -> None:
    number, plan = started(given.storage)
    assert ClusteringExecutor(given.storage, number, rows_max=4).run() == 1
    assert not any(map(given.storage.exists, plan.paths))
    assert clustering_holder(given.storage).commit(number).end is End.VOID


class Happens(PassingStorage):
    """Something happens after a data file was put."""

    def __init__(self, inner: Storage, happens: Callable[[], object]) -> None:
        super().__init__(inner)
        self._happens = happens

    def _change(self, path: str, act: Callable[[], None]) -> None:
        act()
        if path.endswith(".parquet"):
            self._happens()


def test_who_comes_after_the_decision_takes_its_file_away(given: Scattered) -> None:
    number, plan = started(given.storage)
    late = Happens(given.storage, lambda: ClusteringJournal(given.storage).decide(number, AbortDecision("closed")))
    with pytest.raises(RoundEnded, match="decided"):
        ClusteringExecutor(late, number).run()
    assert not any(map(given.storage.exists, plan.paths))


def test_a_merge_that_takes_too_long_is_given_up(given: Scattered) -> None:
    number, plan = started(given.storage)
    times = iter([0.0, 0.0, DEADLINE_SECONDS + 1])
    with pytest.raises(RoundEnded, match="longer than"):
        ClusteringExecutor(given.storage, number, forward=lambda: next(times)).run()
    assert not any(map(given.storage.exists, plan.paths))


def test_a_plan_of_a_newer_release_is_left_alone(given: Scattered) -> None:
    number, plan = started(given.storage)
    newer = plan.encode().replace(b'"version": 1', b'"version": 2')
    given.storage.put(ClusteringJournal(given.storage).path(number, "plan"), newer)
    with pytest.raises(NewerFormat, match="newer release"):
        clustering_holder(given.storage).settle()
    given.storage.put(ClusteringJournal(given.storage).path(number, "plan"), b"{}")
    with pytest.raises(InvalidTable, match="cannot be read"):
        clustering_holder(given.storage).settle()


def test_the_completed_file_names_what_was_replaced_and_keeps_the_tables_columns(given: Scattered) -> None:
    before = given.groups
    schemas = [CommitMetadata.decode_extra(data, path)["schema"] for path, data in given.table.completed().items()]
    cluster(given.storage)
    ((path, data),) = [(path, data) for path, data in given.table.completed().items() if "replacecommit" in path]
    metadata = CommitMetadata.decode(data, path)
    assert metadata.operation_type == "CLUSTER"
    assert metadata.extra_metadata["schema"] == schemas[-1]
    assert {stat.file_id for stat in metadata.write_stats["eu"]} == given.groups["eu"]
    assert given.groups["eu"].isdisjoint(before["eu"])


def test_a_plan_of_an_older_release_is_read(given: Scattered) -> None:
    """It did not say when the clustering completes."""
    number, plan = started(given.storage)
    fields = json.loads(plan.encode())
    del fields["completionTime"]
    given.storage.put(ClusteringJournal(given.storage).path(number, "plan"), json.dumps(fields).encode())
    read = ClusteringJournal(given.storage).plan(number)
    assert read == replace(plan, completion_time=later(plan.instant))
    ended = clustering_holder(given.storage).settle()
    assert ended is not None
    assert ended.end is End.VOID
    given.unchanged()
    given.goes_on()
    assert cluster(given.storage).end is End.COMPLETED
