"""Situations in which rows are committed, and something is wrong with rows, commits, files or other writers."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import CatalogReport, DamagedFile, LagReport, Pin, TableReport
from support.drills.played import PlayedJob, PlayedPipeline
from support.drills.situation import NONE, Situation, alerts

_DAMAGED = DamagedFile(file="a.parquet", file_group="a", instant="20261121110000000", problem="it is gone")


def _then(pipeline: PlayedPipeline, minutes: float, each: object) -> None:
    """A healthy start, then this beside each commit."""
    pipeline.pass_time(5)
    pipeline.plays = each  # type: ignore[assignment]
    pipeline.pass_time(minutes)


def _commits_take_two_minutes(pipeline: PlayedPipeline) -> None:
    _then(pipeline, 15, lambda job: job.commit(latency=120))


def _one_commit_in_twenty_takes_two_minutes(pipeline: PlayedPipeline) -> None:
    def each(job: PlayedJob) -> None:
        job.commit(latency=120 if int(job.seconds()) % 300 == 0 else 10)

    _then(pipeline, 40, each)


def _one_row_in_five_is_poison(pipeline: PlayedPipeline) -> None:
    _then(pipeline, 15, lambda job: job.commit(rows=100, rejected=20))


def _a_poisoned_message(pipeline: PlayedPipeline) -> None:
    _then(pipeline, 0.25, lambda job: job.commit(rows=1000, rejected=1))
    _then(pipeline, 5, PlayedJob.commit)


def _all_rows_go_to_one_bucket(pipeline: PlayedPipeline) -> None:
    pipeline.plays = lambda job: job.commit(rows=12_000)
    pipeline.pass_time(75)


def _another_writer_holds_the_lock(pipeline: PlayedPipeline) -> None:
    def waits(job: PlayedJob) -> None:
        job.board.waited_for_lock(5)
        job.commit()

    _then(pipeline, 20, waits)


def _a_catalog_is_away(pipeline: PlayedPipeline) -> None:
    named, now = "hive thrift://metastore:9083 lake.orders", pipeline.cluster.now
    away = CatalogReport(catalog=named, behind_since=now, failures=3, problem="it does not answer")

    def each(job: PlayedJob) -> None:
        job.board.catalog(away)
        job.commit()

    _then(pipeline, 30, each)


def _a_table_of_many_is_parked_and_another_hangs(pipeline: PlayedPipeline) -> None:
    def table(topic: str, state: Literal["open", "parked"], seconds: float, reason: str | None = None) -> TableReport:
        lag = LagReport(offsets=9, seconds=seconds)
        path = f"s3://lake/{topic}"
        return TableReport(topic=topic, table=path, state=state, lag=lag, reason=reason, rows=1, commits=1)

    def each(job: PlayedJob) -> None:
        refused = table("shop.refused", "parked", 0, "the table has 8 buckets, the spec 4")
        job.tables = (refused, table("shop.hangs", "open", 60 + job.seconds()), table("shop.well", "open", 5))
        job.commit()

    _then(pipeline, 20, each)


def _commits_are_rolled_back(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    assert pipeline.job is not None
    pipeline.job.board.position_lost()
    pipeline.pass_time(3)


def _the_checkpoint_is_gone(pipeline: PlayedPipeline) -> None:
    pipeline.verdict = ("rebuilt", "the checkpoint was lost")
    pipeline.pass_time(5)


def _reports(state: ServicesState, *, fails: bool = False) -> object:
    def each(job: PlayedJob) -> None:
        at = job.seconds()
        grown = tuple(pin.model_copy(update={"seconds": pin.seconds + at}) for pin in state.pins)
        failed = int(at // 600) if fails else 0
        job.board.services(replace(state, pins=grown, failures=failed, failing=failed))
        job.commit()

    return each


def _nothing_is_compacted(pipeline: PlayedPipeline) -> None:
    state = ServicesState(LogBacklog(12, 4096, pipeline.cluster.now))
    _then(pipeline, 40, _reports(state))


def _nothing_is_compacted_as_promised(pipeline: PlayedPipeline) -> None:
    pipeline.cluster.edit(slo={"readOptimizedFreshness": "5m"})
    pipeline.pass_time(5)
    state = ServicesState(LogBacklog(12, 4096, pipeline.cluster.now))
    _then(pipeline, 15, _reports(state))


def _a_step_fails_each_ten_minutes(pipeline: PlayedPipeline) -> None:
    _then(pipeline, 60, _reports(ServicesState(LogBacklog()), fails=True))


def _a_dead_instant_holds_the_archive(pipeline: PlayedPipeline) -> None:
    pin = Pin(service="archive", by="the instant 20261121110000000 of another writer is open", seconds=20_000)
    _then(pipeline, 50, _reports(ServicesState(LogBacklog(), pins=(pin,))))


def _a_data_file_is_deleted(pipeline: PlayedPipeline) -> None:
    _then(pipeline, 5, _reports(ServicesState(LogBacklog(), damage=(_DAMAGED,))))
    pipeline.plays = _reports(ServicesState(LogBacklog()))  # type: ignore[assignment]
    pipeline.pass_time(3)


TABLE_TROUBLES = (
    Situation(
        "each commit takes two minutes: a slow store",
        _commits_take_two_minutes,
        {"4m": NONE, "12m": alerts("CommitLatencyFastBurn"), "19m": alerts("CommitLatencyFastBurn")},
    ),
    Situation(
        "one commit in twenty takes two minutes",
        _one_commit_in_twenty_takes_two_minutes,
        {"4m": NONE, "44m": alerts("CommitLatencySlowBurn")},
    ),
    Situation(
        "one row in five is poison",
        _one_row_in_five_is_poison,
        {"4m": NONE, "8m": alerts("DeadLetters"), "18m": alerts("DeadLetters", "ManyDeadLetters")},
    ),
    Situation("one poisoned message", _a_poisoned_message, {"4m": NONE, "8m": alerts("DeadLetters")}),
    Situation("all rows go to one bucket", _all_rows_go_to_one_bucket, {"50m": NONE, "70m": alerts("BucketSkew")}),
    Situation(
        "another writer holds the lock for a third of the time",
        _another_writer_holds_the_lock,
        {"4m": NONE, "24m": alerts("LockContention")},
    ),
    Situation(
        "a table of many is refused, another one hangs, and a third is written",
        _a_table_of_many_is_parked_and_another_hangs,
        {"4m": NONE, "23m": alerts("TablesParked", "TableLate")},
    ),
    Situation("a metastore is away", _a_catalog_is_away, {"10m": NONE, "27m": alerts("CatalogLate")}),
    Situation(
        "another writer rolls commits back", _commits_are_rolled_back, {"4m": NONE, "7m": alerts("CommitsRolledBack")}
    ),
    Situation("the checkpoint is gone at a start", _the_checkpoint_is_gone, {"4m": alerts("CheckpointRebuilt")}),
    Situation("nothing is compacted", _nothing_is_compacted, {"20m": NONE, "44m": alerts("CompactionLate")}),
    Situation(
        "nothing is compacted, and base files are promised to be fresh",
        _nothing_is_compacted_as_promised,
        {"9m": NONE, "24m": alerts("BaseFilesLate")},
    ),
    Situation(
        "a step of table services fails each ten minutes",
        _a_step_fails_each_ten_minutes,
        {"40m": NONE, "64m": alerts("ServiceFailures")},
    ),
    Situation(
        "a dead instant of another writer holds the archive",
        _a_dead_instant_holds_the_archive,
        {"40m": NONE, "54m": alerts("Pinned")},
    ),
    Situation(
        "a data file is deleted, and restored",
        _a_data_file_is_deleted,
        {"4m": NONE, "9m": alerts("DamagedFiles"), "12m": NONE},
    ),
)
