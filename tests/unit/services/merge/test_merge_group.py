"""One operation of a plan: its base file is made once, and what is reported is what is stored."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.merge.merge_rules import MergeRules, merge_rules
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.choose import CompactionTriggers, due_groups
from bucketingest.services.compaction.commit import compaction_commit
from bucketingest.services.merge.merge_group import compact_group
from bucketingest.write.open_table import stored_schema
from support.tables.other_writers import next_time
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


class Prepared:
    """A table with one file group that has two log files, and an operation that merges it."""

    def __init__(self) -> None:
        self.table = TestTable()
        self.table.attempt().go_on(
            (offsets(0, 2), [row("k0", region="eu"), row("k1", region="eu")]), (offsets(2, 3), [row("k0", region="eu")])
        )
        self.time = next_time(self.table)
        schema = stored_schema(load_table(self.table.storage), self.table.timeline())
        assert schema is not None
        self.schema = schema
        arrow = avro_to_arrow(with_meta_columns(schema))
        self.rules: MergeRules = merge_rules(load_table(self.table.storage), arrow)
        view = load_file_view(self.table.storage, self.table.timeline())
        due, _ = due_groups(view, (), CompactionTriggers(log_files=1), datetime.now(UTC))
        self.operation: CompactionOperation = due[0].operation

    def run(self, operation: CompactionOperation | None = None) -> WriteStat:
        given = operation or self.operation
        return compact_group(self.table.storage, given, self.time, self.rules, token="1-0-0")


def test_the_base_file_has_a_marker_and_is_reported_as_it_is_stored() -> None:
    prepared = Prepared()
    stat = prepared.run()
    assert stat.path is not None
    assert stat.file_size_in_bytes == prepared.table.storage.head(stat.path).size
    assert marked_files(prepared.table.storage, prepared.time) == {stat.path}
    assert stat.prev_commit == "null"
    assert stat.num_writes == stat.num_inserts > 0
    assert stat.total_log_files_compacted == len(prepared.operation.log_files)


def test_a_second_executor_reports_the_same() -> None:
    prepared = Prepared()
    assert prepared.run() == prepared.run()


def test_a_base_file_of_other_inputs_is_not_adopted() -> None:
    """Its name was used before: for a plan that Hudi rolled back, or by another release."""
    prepared = Prepared()
    prepared.run()
    fewer = replace(prepared.operation, log_files=prepared.operation.log_files[:-1])
    with pytest.raises(InvalidTable, match="needs a new round"):
        prepared.run(fewer)


def test_a_base_file_of_another_writer_is_not_adopted() -> None:
    prepared = Prepared()
    stat = prepared.run()
    assert stat.path is not None
    sink = io.BytesIO()
    pq.write_table(pa.table({"_hoodie_record_key": ["k0"]}), sink)
    prepared.table.storage.put(stat.path, sink.getvalue())
    with pytest.raises(InvalidTable, match="of another writer"):
        prepared.run()


def test_the_commit_has_the_statistics_by_partition_and_the_schema() -> None:
    prepared = Prepared()
    stat = prepared.run()
    commit = compaction_commit([stat], prepared.schema)
    assert commit.write_stats == {"eu": [stat]}
    assert (commit.operation_type, commit.compacted) == ("COMPACT", True)
    assert set(commit.extra_metadata) == {"schema", "bucketingest.services"}
