"""Situations in which nothing is committed: of the source, of drivers, of the operator."""

from __future__ import annotations

from datetime import timedelta

from bucketingest.exit_codes import ExitCode
from bucketingest_operator.observation import JobState
from bucketingest_operator.resource import PAUSE_ANNOTATION
from support.drills.played import PlayedJob, PlayedPipeline
from support.drills.recording import Recording
from support.drills.situation import LATE, NONE, YOUNG, Situation, alerts


def _the_source_is_away(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(10)
    pipeline.source_answers = False
    pipeline.pass_time(40)
    pipeline.source_answers = True
    pipeline.pass_time(20)


def _the_source_goes_away_in_a_micro_batch(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(10)
    pipeline.plays = lambda job: job.opens()
    pipeline.pass_time(1)
    pipeline.source_answers = False
    pipeline.pass_time(40)
    pipeline.source_answers = True
    pipeline.pass_time(2)
    pipeline.plays = PlayedJob.commit
    pipeline.pass_time(7)
    assert pipeline.cluster.resource.status.attempt == 1, "no other driver could have done better"


def _each_attempt_ends(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(10)
    pipeline.source_answers = False
    pipeline.ends_after = (timedelta(minutes=3), ExitCode.SOURCE_UNAVAILABLE)
    pipeline.pass_time(50)


def _a_quiet_week_and_then_the_source_is_away(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    pipeline.plays = lambda job: job.board.idle()
    pipeline.pass_time(7 * 24 * 60, every=600)
    pipeline.recording = Recording()  # the rules take minutes for a week
    pipeline.pass_time(60)
    pipeline.plays = PlayedJob.commit
    pipeline.pass_time(5)
    pipeline.plays = lambda job: job.board.idle()
    pipeline.pass_time(5)
    pipeline.source_answers = False
    pipeline.pass_time(20)


def _no_node_starts_the_driver(pipeline: PlayedPipeline) -> None:
    pipeline.starts = False
    pipeline.pass_time(22)


def _each_attempt_runs_out_of_memory(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(10)
    pipeline.plays = lambda _: None
    pipeline.ends_after = (timedelta(seconds=45), ExitCode.OUT_OF_MEMORY)
    pipeline.pass_time(25)


def _a_person_must_act(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(10)
    pipeline.ends_after = (timedelta(minutes=1), ExitCode.SOURCE_DATA_LOST)
    pipeline.pass_time(5)


def _the_operator_is_gone(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    pipeline.operator_looks = False
    pipeline.pass_time(12)


def _passes_fail(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    pipeline.passes_fail = True
    pipeline.pass_time(30)


def _a_paused_pipeline_hangs_with_an_open_instant(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    pipeline.cluster.annotate(**{PAUSE_ANNOTATION: "true"})
    pipeline.plays = lambda job: job.opens()
    pipeline.pass_time(20)


def _a_changed_spec_never_commits(pipeline: PlayedPipeline) -> None:
    pipeline.pass_time(5)
    pipeline.plays = lambda job: job.opens()
    pipeline.cluster.edit(transform={"sql": "SELECT * FROM source WHERE false"})
    pipeline.pass_time(25)


def _a_rollback_fails(pipeline: PlayedPipeline) -> None:
    pipeline.cluster.edit(restart={"maxFailures": 1})
    pipeline.pass_time(5)
    pipeline.plays = lambda job: job.opens()
    pipeline.rollbacks = JobState.FAILED
    pipeline.pass_time(15)


OUTAGES = (
    Situation(
        "the broker is away and the driver waits: nobody knows whether input waits",
        _the_source_is_away,
        {
            "9m": NONE,
            "14m": NONE,
            "17m": alerts("SourceUnavailable"),
            "22m": LATE | alerts("SourceUnavailable"),
            "45m": LATE | YOUNG | alerts("NotReady", "SourceUnavailable"),
            "55m": YOUNG | alerts("FreshnessFastBurn"),
        },
    ),
    Situation(
        "the broker goes away in the middle of a micro-batch: its instant stays open, and its driver stays",
        _the_source_goes_away_in_a_micro_batch,
        {
            "9m": NONE,
            "17m": alerts("SourceUnavailable"),
            "24m": LATE | alerts("SourceUnavailable", "StuckInflight"),
            "50m": LATE | YOUNG | alerts("NotReady", "SourceUnavailable", "StuckInflight"),
            "59m": YOUNG | alerts("FreshnessFastBurn"),
        },
    ),
    Situation(
        "the broker is away and each attempt ends: none of them resets an alert",
        _each_attempt_ends,
        {
            "22m": LATE | alerts("SourceUnavailable"),
            **dict.fromkeys(
                ("37m", "42m", "48m"), LATE | YOUNG | alerts("NotReady", "RestartStorm", "SourceUnavailable")
            ),
        },
    ),
    Situation(
        "nothing comes for a week, a few rows do, and then the broker is away: nothing waited before",
        _a_quiet_week_and_then_the_source_is_away,
        {
            "2m": NONE,
            "59m": NONE,
            "69m": NONE,
            "73m": NONE,
            "82m": LATE | alerts("SourceUnavailable"),
            "87m": LATE | alerts("NotReady", "SourceUnavailable"),
        },
    ),
    Situation(
        "no node starts the driver of a new resource",
        _no_node_starts_the_driver,
        {"3m": NONE, "20m": LATE | alerts("NotReady")},
    ),
    Situation(
        "each attempt runs out of memory before it commits",
        _each_attempt_runs_out_of_memory,
        {"9m": NONE, "34m": LATE | YOUNG | alerts("NotReady", "RestartStorm")},
    ),
    Situation("the topic lost messages: a person must act", _a_person_must_act, {"9m": NONE, "13m": alerts("Stalled")}),
    Situation("the operator is gone", _the_operator_is_gone, {"4m": NONE, "16m": alerts("OperatorDown")}),
    Situation("the API server denies requests", _passes_fail, {"4m": NONE, "34m": alerts("OperatorErrors")}),
    Situation(
        "a paused pipeline hangs with an open instant",
        _a_paused_pipeline_hangs_with_an_open_instant,
        {"4m": NONE, "23m": LATE | alerts("StuckInflight")},
    ),
    Situation(
        "a changed spec never commits",
        _a_changed_spec_never_commits,
        {"4m": NONE, "29m": YOUNG | alerts("SpecNotProven", "FreshnessFastBurn")},
    ),
    Situation(
        "a hung driver is stopped for good, and its open instant cannot be rolled back",
        _a_rollback_fails,
        {
            "4m": NONE,
            "12m": alerts("RollbackFailed", "Stalled"),
            "19m": alerts("RollbackFailed", "Stalled", "StuckInflight", "FreshnessFastBurn"),
        },
    ),
)
