"""The sum of many tables' progress."""

from bucketingest.spec.job_report import TablesReport
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


def tables(*, open_: int = 0, parked: int = 0) -> TablesReport:
    return TablesReport(known=open_ + parked, open=open_, parked=parked, gone=0)


def test_a_job_that_looks_and_finds_no_topic_is_idle_and_makes_progress() -> None:
    board = TablesBoard()
    assert board.snapshot().phase is Phase.STARTING
    board.looked()
    board.refresh()
    now = board.snapshot()
    assert (now.phase, now.idle) == (Phase.IDLE, True)
    assert now.last_report_age is not None


def test_a_job_whose_looks_go_on_makes_progress_though_no_table_does() -> None:
    board = TablesBoard()
    one = board.table("a")
    one.started(None, 1)
    board.looked()
    summed, own = board.snapshot().last_report_age, one.snapshot().last_report_age
    assert summed is not None
    assert own is not None
    assert summed < own


def test_a_job_all_of_whose_tables_are_parked_runs_and_has_no_lag_of_theirs() -> None:
    board = TablesBoard()
    board.report = lambda: tables(parked=1)
    one = board.table("a")
    one.started(SourceRange("kafka", None, '{"a":{"0":5}}', "q", 0), 1)
    one.source_ends({("a", 0): 20})
    one.query_ended(None)  # as a table that is parked
    one.source_ends({("a", 0): 30})
    now = board.snapshot()
    assert (now.phase, now.idle, now.lag_seconds, now.verdict) == (Phase.RUNNING, True, 0, "in step")


def test_a_sum_is_kept_for_a_moment() -> None:
    board = TablesBoard()
    one = board.table("a")
    assert board.snapshot().rows == 0
    one.batch_ended(MicroBatchOutcome("20260101000000000", rows=5))
    assert board.snapshot().rows == 0
    board.refresh()
    assert board.snapshot().rows == 5
