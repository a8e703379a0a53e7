"""Reports of write tasks: complete or refused, and the same after the way to the driver."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.write.errors import IncompleteReport
from bucketingest.write.rows.write_status import (
    NO_WRITE_TASK,
    STATUS_DDL,
    STATUS_SCHEMA,
    WriteStatus,
    check_complete,
    statuses_from_arrow,
    statuses_to_arrow,
)


def wrote(task: int, bucket: int, *, received: int = 3, upserts: int = 2, deletes: int = 1) -> WriteStatus:
    file_id = deterministic_file_id(bucket)
    name = f".{file_id}_20261121080000000.log.1_0-0-0"
    return WriteStatus(
        task, "eu", bucket, file_id, name, 10, 1, rows_received=received, upserts=upserts, deletes=deletes
    )


def test_every_task_has_reported() -> None:
    check_complete([wrote(0, 1), wrote(0, 2), WriteStatus(1)], 2)


def test_a_task_that_has_not_reported_stops_the_commit() -> None:
    with pytest.raises(IncompleteReport) as refused:
        check_complete([wrote(0, 1), WriteStatus(3)], 4)
    assert str(refused.value) == "write tasks [1, 2] of 4 have not reported; nothing is committed"


def test_no_report_at_all_stops_the_commit() -> None:
    with pytest.raises(IncompleteReport, match=r"write tasks \[0\] of 1 have not reported"):
        check_complete([], 1)


def test_many_missing_tasks_are_not_all_named() -> None:
    with pytest.raises(IncompleteReport, match=r"write tasks \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\] of 500 have"):
        check_complete([], 500)


def test_rows_rejected_before_the_shuffle_do_not_stand_for_a_write_task() -> None:
    with pytest.raises(IncompleteReport, match=r"write tasks \[0\] of 1 have not reported"):
        check_complete([WriteStatus(NO_WRITE_TASK, file_name="x.parquet", rows_received=1, rejected=1)], 1)


def test_one_file_reported_twice_stops_the_commit() -> None:
    with pytest.raises(
        IncompleteReport, match=r"two write tasks report the same file .'eu', '.00000001-0000.*nothing is"
    ):
        check_complete([wrote(0, 1), wrote(1, 1)], 2)


def test_one_file_name_in_two_partitions_is_two_files() -> None:
    there = wrote(1, 1)
    elsewhere = WriteStatus(0, "us", 1, there.file_id, there.file_name)
    check_complete([there, elsewhere], 2)


def test_more_rows_written_than_received_stop_the_commit() -> None:
    with pytest.raises(IncompleteReport, match="a write task reports more rows written than received"):
        check_complete([wrote(0, 1, received=2)], 1)


def test_rows_neither_written_nor_rejected_were_superseded() -> None:
    assert wrote(0, 1, received=10).superseded == 7
    assert WriteStatus(0, rows_received=4, rejected=4).superseded == 0


STATUSES = [wrote(0, 1), WriteStatus(1), WriteStatus(2, file_name="a", rejected=2, sample="ä: b", adopted=True)]


def test_statuses_survive_the_way_to_the_driver() -> None:
    arrived = pa.Table.from_batches([statuses_to_arrow(STATUSES[:1]), statuses_to_arrow(STATUSES[1:])])
    assert statuses_from_arrow(arrived) == STATUSES


def test_statuses_survive_as_json() -> None:
    assert [WriteStatus(**json.loads(json.dumps(status.to_json()))) for status in STATUSES] == STATUSES


def test_what_is_for_metrics_alone_travels_and_is_not_kept() -> None:
    status = WriteStatus(0, buffer_bytes=77)
    arrived = statuses_from_arrow(pa.Table.from_batches([statuses_to_arrow([status])]))
    assert arrived[0].buffer_bytes == 77
    assert "buffer_bytes" not in status.to_json()


def test_columns_may_arrive_in_any_order() -> None:
    arrived = pa.Table.from_batches([statuses_to_arrow(STATUSES)])
    assert statuses_from_arrow(arrived.select(arrived.column_names[::-1])) == STATUSES


def test_the_engines_words_for_the_columns_are_those_of_arrow() -> None:
    words = {"BIGINT": pa.int64(), "STRING": pa.string(), "BOOLEAN": pa.bool_()}
    columns = [column.split(" ") for column in STATUS_DDL.split(", ")]
    assert pa.schema([(name, words[kind]) for name, kind in columns]) == STATUS_SCHEMA


def test_a_file_becomes_a_write_stat_of_hudi() -> None:
    stat = wrote(0, 1).to_write_stat()
    assert (stat.file_id, stat.partition_path) == (deterministic_file_id(1), "eu")
    assert stat.path == f"eu/{wrote(0, 1).file_name}"
