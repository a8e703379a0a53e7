"""The sum of many tables' progress."""

from bucketingest.stream.report.progress import Phase
from bucketingest.stream.report.tables_board import TablesBoard
from bucketingest.write.coordinator_api import MicroBatchOutcome
from bucketingest.write.instants.source_range import SourceRange


def test_rows_and_lags_of_all_tables_are_added() -> None:
    board = TablesBoard()
    for topic, rows, end in (("a", 5, 5), ("b", 7, 20)):
        one = board.table(topic)
        one.started(SourceRange("kafka", None, f'{{"{topic}":{{"0":{rows}}}}}', "q", 0), 1)
        one.batch_ended(MicroBatchOutcome("20260101000000000", rows=rows))
        one.source_ends({(topic, 0): end})

    now = board.snapshot()

    assert (now.rows, now.batches, now.lag_offsets) == (12, 2, None)
    assert now.phase is Phase.RUNNING
    assert board.offsets() == {("a", 0): (5, 5), ("b", 0): (7, 20)}


def test_a_sum_is_kept_for_a_moment() -> None:
    board = TablesBoard()
    one = board.table("a")
    assert board.snapshot().rows == 0
    one.batch_ended(MicroBatchOutcome("20260101000000000", rows=5))
    assert board.snapshot().rows == 0
    board.refresh()
    assert board.snapshot().rows == 5
