"""Which test causes which trouble for real: the table that says what on-call has been drilled for.

Alerts are in `SITUATIONS`, each with the times at which it fires. Here are the other things that a person meets: exit
codes, conditions, the pages' commands. `tests/unit/drills` refuses a page, an alert, a code or a condition without a
drill, and a drill whose test is not there or does not name what it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bucketingest.exit_codes import ExitCode
from support.drills.outages import OUTAGES
from support.drills.table_troubles import TABLE_TROUBLES

SITUATIONS: Final = (*OUTAGES, *TABLE_TROUBLES)


@dataclass(frozen=True, slots=True)
class Drill:
    """One thing that a person may meet, and the test in which it happens for real.

    Attributes:
        trouble: How it is caused.
        test: `file::function`, below tests/; a part of a test may be a function of its own.
        shows: What the function looks for, as it is written there.
    """

    trouble: str
    test: str
    shows: str


_CONTRACT: Final = "integration/cli/test_contract.py"
_RUN: Final = "integration/cli/test_run.py"
_REFUSES: Final = "unit/cli/test_run_refuses.py"
_TOPICS: Final = "integration/stream/topics/test_topics_of_a_run.py"
_TROUBLES: Final = "e2e/test_troubles.py"
_OPERATOR: Final = "integration/operator/test_operator.py"
_AWAY: Final = "integration/stream/topics/test_kafka_away.py"
_ROLLBACK: Final = "unit/cli/rollback/test_rollback.py"
_DAMAGE: Final = (
    "unit/cli/inspection/test_inspect.py::test_a_file_that_was_deleted_or_cut_is_a_finding_with_its_rows_and_ways_out"
)
_IMAGE: Final = f"{_TROUBLES}::test_an_image_that_cannot_be_pulled_is_reported_and_a_right_one_starts_at_once"

EXIT_CODES: Final = {
    ExitCode.OK: Drill("all input is there", "support/jobs/files_runs.py::to_the_end", "OK"),
    ExitCode.DEFECT: Drill(
        "a division by zero inside a command",
        "unit/cli/test_main.py::test_a_defect_shows_its_traceback_and_has_a_code_of_its_own",
        "DEFECT",
    ),
    ExitCode.WRONG_RESULT: Drill(
        "a demo's table is empty when it is read back",
        "unit/cli/demo/test_reads_back.py::test_a_table_whose_rows_are_gone_when_it_is_read_back_is_a_wrong_result",
        "WRONG_RESULT",
    ),
    ExitCode.WRITE_CONFLICT: Drill(
        "bucket rules are changed while another writer's instant is pending",
        "unit/write/bucket_rules/test_settling.py::test_rules_are_not_changed_while_another_writer_is_at_work",
        "WRITE_CONFLICT",
    ),
    ExitCode.POSITION_LOST: Drill(
        "another writer rolls each new commit back",
        "integration/stream/test_position_lost.py::"
        "test_a_pipeline_whose_commits_another_writer_rolls_back_again_and_again_ends",
        "POSITION_LOST",
    ),
    ExitCode.CHECKPOINT_STALE: Drill(
        "somebody writes into the checkpoint while the query runs",
        "integration/stream/checkpoint/test_checkpoint_of_others.py::"
        "test_a_checkpoint_that_somebody_writes_into_while_the_query_runs_ends_it",
        "CHECKPOINT_STALE",
    ),
    ExitCode.BAD_INPUT: Drill(
        "SQL with a mistake",
        "integration/cli/test_validate_connect.py::test_a_file_that_would_run_passes_and_wrong_sql_does_not",
        "BAD_INPUT",
    ),
    ExitCode.TABLE_REFUSED: Drill(
        "a table with other buckets", f"{_REFUSES}::test_a_table_that_does_not_fit_is_refused", "TABLE_REFUSED"
    ),
    ExitCode.FENCED_OUT: Drill(
        "a second process takes over in the middle of a micro-batch",
        "integration/stream/test_restart.py::test_an_older_attempt_that_is_still_running_commits_nothing",
        "claimed the pipeline after this attempt",
    ),
    ExitCode.SOURCE_CONFLICT: Drill(
        "the topic is made again between two runs, and grows",
        f"{_TOPICS}::test_a_topic_that_was_made_again_and_has_grown_is_not_read_on",
        "SOURCE_CONFLICT",
    ),
    ExitCode.STORAGE_UNAVAILABLE: Drill(
        "the service that gives credentials is away",
        f"{_TROUBLES}::test_a_pipeline_waits_while_the_service_is_away_that_gives_its_machine_credentials",
        "StorageUnavailable",
    ),
    ExitCode.ACCESS_DENIED: Drill(
        "the keys of the S3 server expire",
        "e2e/test_runs.py::test_a_pipeline_on_s3_survives_expired_credentials_and_the_end_of_the_pods_that_merge",
        "AccessDenied",
    ),
    ExitCode.ROWS_REJECTED: Drill(
        "a message that does not decode, with errors.mode: fail",
        "integration/stream/source/test_kafka_dead_letters.py::"
        "test_mode_fail_ends_the_run_with_the_first_bad_row_and_shows_nothing_of_the_micro_batch",
        "RowsRejected",
    ),
    ExitCode.QUERY_FAILED: Drill(
        "SQL that fails on a row",
        f"{_CONTRACT}::test_what_ends_a_query_is_in_the_message_and_in_one_line",
        "QUERY_FAILED",
    ),
    ExitCode.MISSING_DEPENDENCY: Drill(
        "an interpreter without the package",
        f"{_RUN}::test_an_interpreter_that_cannot_run_tasks_is_named",
        "MISSING_DEPENDENCY",
    ),
    ExitCode.TABLE_LOCKED: Drill(
        "a command on a table whose job runs",
        "unit/cli/services/test_by_hand.py::test_without_a_dry_run_they_leave_a_table_to_the_job_that_holds_it",
        "TABLE_LOCKED",
    ),
    ExitCode.SOURCE_DATA_LOST: Drill(
        "the topic is deleted", f"{_TOPICS}::test_a_topic_that_was_deleted_is_lost_data", "SOURCE_DATA_LOST"
    ),
    ExitCode.SOURCE_UNAVAILABLE: Drill(
        "nothing listens at the brokers' address",
        "integration/stream/source/test_source_ends.py::test_a_broker_that_does_not_answer_is_an_unavailable_source",
        "SOURCE_UNAVAILABLE",
    ),
    ExitCode.JVM_FAILED: Drill(
        "SIGKILL of Spark's JVM",
        f"{_CONTRACT}::a_killed_jvm_is_distinguished_from_other_ends",
        "JVM_FAILED",
    ),
    ExitCode.OUT_OF_MEMORY: Drill("processes that eat the container's memory", _IMAGE, "OutOfMemory"),
    ExitCode.STOP_DEADLINE: Drill(
        "a stop with no time", f"{_CONTRACT}::past_the_deadline_it_gives_up", "STOP_DEADLINE"
    ),
    ExitCode.INSTANT_HELD: Drill(
        "a rollback of an instant that is being written",
        f"{_ROLLBACK}::test_an_instant_with_a_sign_of_life_is_left_with_a_code_of_its_own_unless_forced",
        "INSTANT_HELD",
    ),
    ExitCode.FINDINGS: Drill("a data file is deleted or cut: what it ends with", _DAMAGE, "deleted"),
    ExitCode.CATALOG_FAILED: Drill(
        "a metastore that does not answer",
        "unit/cli/services/test_sync.py::test_a_catalog_that_is_away_does_not_keep_the_other_back",
        "CATALOG_FAILED",
    ),
    ExitCode.INTERRUPTED: Drill(
        "a second Ctrl-C", f"{_RUN}::a_second_signal_kills_it_with_all_it_started", "INTERRUPTED"
    ),
    ExitCode.TERMINATED: Drill(
        "a second SIGTERM", "unit/cli/process/test_stopping.py::test_a_second_signal_kills_it_and_says_so", "TERMINATED"
    ),
}

CONDITIONS: Final = {
    "Ready": Drill(
        "the namespace has no room",
        f"{_TROUBLES}::test_a_spec_that_cannot_run_is_refused_or_stalls_with_advice",
        '"Ready", "False"',
    ),
    "Reconciling": Drill(
        "many restarts at once",
        "integration/operator/test_fleet.py::test_of_many_pipelines_that_must_restart_only_so_many_do_at_once",
        "RestartWaiting",
    ),
    "Stalled": Drill(
        "SQL that Spark does not take",
        f"{_TROUBLES}::test_a_spec_that_cannot_run_is_refused_or_stalls_with_advice",
        '"Stalled", "True", "BadSpec"',
    ),
    "CommitFresh": Drill(
        "a quota refuses executors",
        "integration/operator/test_refusals.py::test_executors_that_a_quota_refuses_are_named_and_the_driver_stays",
        "NoExecutors",
    ),
    "CheckpointHealthy": Drill(
        "the checkpoint is deleted, and driver and operator are killed",
        f"{_TROUBLES}::test_nothing_is_lost_with_the_checkpoint_the_operator_or_an_upgrade",
        '"CheckpointHealthy", "True", "Rebuilt"',
    ),
    "TimelineClean": Drill(
        "a stuck driver",
        f"{_OPERATOR}::test_another_driver_starts_only_when_a_stuck_one_is_gone_and_rolls_back_itself",
        '"Ready", "False", "Stuck"',
    ),
    "Degraded": Drill(
        "SQL with a mistake in a changed spec",
        "integration/operator/test_preflight.py::test_a_spec_with_a_typo_leaves_the_driver_alone_and_the_corrected_one_replaces_it",
        '"Degraded", "True", "PreflightFailed"',
    ),
    "SourceComplete": Drill(
        "a file that was read is written again, with changed: ignore",
        "integration/stream/source/test_files_source.py::test_a_changed_file_that_is_ignored_is_a_finding",
        '("False", "FilesChanged")',
    ),
    "CatalogSynced": Drill(
        "a catalog that does not answer a running job",
        "unit/stream/report/test_catalogs.py::test_a_catalog_that_is_away_is_a_condition_and_a_metric_until_it_is_back",
        '("False", "CatalogFails")',
    ),
    "SchemasTaken": Drill(
        "a schema that the table cannot take, then one whose fields become columns",
        "unit/stream/report/test_schemas.py::test_schemas_that_are_refused_or_taken_are_a_condition_an_event_and_metrics",
        '("False", "SchemaRefused")',
    ),
    "TablesHealthy": Drill(
        "tables that cannot be written, beside others that can",
        "integration/operator/test_many_tables.py::test_a_resource_with_many_tables_runs_and_says_which_are_parked",
        '"TablesHealthy", "False", "TablesParked"',
    ),
    "MirrorEqual": Drill(
        "an audit that finds a missing row",
        "integration/operator/test_audit_jobs.py::test_an_audit_runs_once_says_what_it_found_and_goes_with_its_section_or_its_resource",
        '"MirrorEqual", "False", "RowsDiffer"',
    ),
    "ServicesHealthy": Drill(
        "a quota refuses the Job that merges",
        "integration/operator/test_compaction_jobs.py::test_a_job_that_a_quota_refuses_is_visible_and_holds_nothing_up",
        '"ServicesHealthy", "False", "JobRefused"',
    ),
}

_PEOPLE: Final = (
    "integration/operator/test_for_people.py::test_top_and_diagnose_show_a_pipeline_and_its_decisions_are_replayed"
)
COMMANDS: Final = {
    "kubectl": Drill(
        "every line of a page that begins with it is typed for a pipeline that runs on a cluster",
        "e2e/test_for_people.py::the_commands_of_every_runbook_work_as_written",
        'startswith("kubectl")',
    ),
    "helm upgrade": Drill(
        "each page about the chart is typed, on a cluster",
        "e2e/test_pages.py::test_every_command_that_the_pages_show_works_on_a_cluster",
        '"helm"',
    ),
    "bucketingest top": Drill("a pipeline that runs, in top", _PEOPLE, "top"),
    "bucketingest diagnose": Drill("a pipeline that runs, in a bundle", _PEOPLE, "diagnose"),
    "bucketingest compact": Drill(
        "a data file is deleted or cut: the way out", _DAMAGE, '"compact", "--all", "--accept-damage"'
    ),
    "bucketingest retry": Drill(
        "messages that did not decode are rows after a mend",
        "integration/stream/source/test_retry.py::test_the_command_says_what_it_did",
        'CommandProcess("retry"',
    ),
    "bucketingest rollback": Drill(
        "an instant that a job left", f"{_ROLLBACK}::test_a_dry_run_shows_the_plan_and_changes_nothing", "--dry-run"
    ),
}
"""Commands of the pages: the program, with its own first word where each of its commands has a drill of its own."""

REAL: Final = "integration/drills/test_real.py::test_it_is_seen_and_the_pages_lead_out_of_it"
_REAL_ROWS: Final = "drill.rows_are_in()"


def _real(trouble: str) -> Drill:
    """One of `TROUBLES`, with this story."""
    return Drill(trouble, REAL, _REAL_ROWS)


CAUSED: Final = (
    Drill(
        "the broker is down at a start",
        f"{_AWAY}::test_a_start_waits_for_its_broker_and_the_pipeline_outlives_it",
        "broker.kill()",
    ),
    Drill("the topic is deleted for good", f"{_TOPICS}::test_a_topic_that_was_deleted_is_lost_data", "delete_topic"),
    Drill("retention takes messages", f"{_TOPICS}::test_what_retention_took_is_named", "delete_records"),
    _real("a message does not decode"),
    _real("the broker is killed"),
    _real("the driver is killed, and somebody deletes its checkpoint and a data file"),
    _real("the topic is deleted, made again, and grows"),
    _real("another writer rolls a commit back"),
    _real("the disk of the table is full"),
    _real("the disk of the table is read-only"),
    _real("the store is slow, and says nothing for a while"),
    Drill(
        "the end of a checkpoint is cut",
        "unit/stream/checkpoint/test_checkpoint_own.py::"
        "test_a_torn_last_commit_is_deleted_and_spark_runs_that_micro_batch_again",
        'b""',
    ),
    Drill(
        "the checkpoint is moved",
        "integration/stream/test_restart.py::test_the_topic_may_have_grown_when_the_checkpoint_is_lost",
        "checkpoint",
    ),
    Drill("a week of silence", "support/drills/outages.py::_a_quiet_week_and_then_the_source_is_away", "7 * 24 * 60"),
    Drill(
        "the disk of a merge is full",
        "unit/services/test_inline.py::test_a_full_scratch_disk_fails_the_merge_alone",
        "No space left",
    ),
    Drill(
        "a driver hangs with an open instant",
        "e2e/test_monitoring.py::test_panels_have_data_and_the_alert_for_a_stuck_job_fires_and_resolves",
        "stop_processes",
    ),
    Drill(
        "Hudi's writer commits in between",
        "integration/hudi/test_hudi_writes_beside_us.py::test_writes_to_different_partitions_at_the_same_time_all_stand",
        "hudi",
    ),
    Drill(
        "driver and executor are killed",
        "e2e/test_runs.py::test_a_pipeline_on_a_volume_is_for_itself_and_survives_what_happens_to_its_pods",
        "executor SIGKILL",
    ),
    Drill("a container has too little memory", _IMAGE, "OutOfMemory"),
    Drill(
        "a clock is three days ahead",
        "unit/write/test_clock_ahead.py::test_ingestion_and_services_go_on_after_a_commit_of_a_clock_three_days_ahead",
        "ahead",
    ),
    Drill(
        "two runs of one pipeline",
        "integration/stream/test_restart.py::test_an_older_attempt_that_is_still_running_commits_nothing",
        "claimed the pipeline after this attempt",
    ),
    Drill(
        "two resources on one table",
        "e2e/test_runs.py::test_the_second_resource_on_a_table_waits_and_names_the_first",
        "TableTaken",
    ),
    Drill(
        "a spec that cannot run",
        f"{_TROUBLES}::test_a_spec_that_cannot_run_is_refused_or_stalls_with_advice",
        "BadSpec",
    ),
)
"""Situations that tests cause for real, with rows that are compared afterwards."""
