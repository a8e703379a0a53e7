"""The sum of many tables' progress."""

from datetime import timedelta
from typing import Any

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.placement import Home
from bucketingest.services.state import ServicesState, together
from bucketingest.spec.job_report import DamagedFile, Pin, TablesReport
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


def served(log_files: int, oldest: int, *, pinned: float = 0, damaged: str = "", **more: Any) -> ServicesState:
    """`oldest`: hours ago."""
    pins = (Pin(service="clean", by="group 1", seconds=pinned),) if pinned else ()
    damage = (DamagedFile(file=damaged, file_group="g", instant="1", problem="gone"),) if damaged else ()
    backlog = LogBacklog(log_files, log_files * 10, utc_now() - timedelta(hours=oldest))
    return ServicesState(backlog, pins=pins, damage=damage, **more)


def test_what_table_services_see_is_the_sum_of_all_tables_or_the_worst_of_them() -> None:
    board = TablesBoard()
    board.table("a").services(served(2, 3, pinned=50, compactions=1, last_compaction="20260101000000000"))
    board.table("b").services(served(3, 1, pinned=900, damaged="p/f.parquet", compactions=2, failures=4, failing=2))
    board.table("c").services(ServicesState(compacting="20260102000000000"))
    board.table("idle")

    now = board.snapshot()

    assert now.services is not None
    assert now.services.backlog is not None
    assert (now.services.backlog.log_files, now.services.backlog.size) == (5, 50)
    assert now.oldest_log_age is not None
    assert 3 * 3600 <= now.oldest_log_age < 4 * 3600
    assert now.compacting_for is not None
    assert (now.services.compactions, now.services.failures, now.services.failing) == (3, 4, 2)
    assert (now.services.last_compaction, now.services.compacting) == ("20260101000000000", "20260102000000000")
    assert [pin.by for pin in now.services.pins] == ["topic b: group 1", "topic a: group 1"]
    assert [each.file for each in now.services.damage] == ["topic b: p/f.parquet"]


def test_a_table_that_is_not_known_any_more_leaves_what_it_did_and_nothing_that_is_wrong_with_it() -> None:
    board = TablesBoard()
    for topic in ("a", "b"):
        board.table(topic).batch_ended(MicroBatchOutcome("20260101000000000", rows=5))
        board.table(topic).services(served(2, 3, pinned=50, damaged="f", compactions=1))
    board.table("a").services(served(2, 3, pinned=50, damaged="f", compactions=1).totals())

    board.forget("a")

    now = board.snapshot()
    assert now.services is not None
    assert now.services.backlog is not None
    assert (now.rows, now.services.compactions, now.services.backlog.log_files) == (10, 2, 2)
    assert [each.file for each in now.services.damage] == ["topic b: f"]


def test_totals_of_table_services_go_on_when_a_table_is_opened_again() -> None:
    before = served(2, 3, pinned=50, compactions=4, failures=2, failing=1)
    now = ServicesState(compactions=1).after(before)
    assert (now.compactions, now.failures, now.failing, now.backlog, now.pins) == (5, 2, 0, None, ())
    assert ServicesState(compactions=1).after(None).compactions == 1


def test_table_services_are_left_to_another_writer_only_if_those_of_all_tables_are() -> None:
    left, own = ServicesState(why="Hudi compacts"), ServicesState(home=Home.INLINE, why="it is small")
    for each, expected in (
        ((left, left), (None, "Hudi compacts")),
        ((left, own), (Home.INLINE, "it is small")),
        ((left, ServicesState()), (None, None)),
    ):
        found = together(each)
        assert found is not None
        assert (found.home, found.why) == expected
