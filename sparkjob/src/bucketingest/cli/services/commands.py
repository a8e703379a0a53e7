"""The commands that carry table services out by hand, as the command line shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from bucketingest.cli.options import UnknownFields
from bucketingest.cli.table_options import (
    DryRunOption,
    JsonOption,
    LockOption,
    ResourceFile,
    StorageOptions,
    TableUrl,
    TopicOption,
    UnknownFieldsOption,
    url_of,
)


def compact(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every file group that has log files, not only those that are due.")
    ] = False,
    log_age: Annotated[
        str, typer.Option(help="A file group is due if its oldest log file is this old, ...", metavar="DURATION")
    ] = "1h",
    log_files: Annotated[int, typer.Option(min=1, help="... or if it has this many log files, ...")] = 50,
    log_percent: Annotated[
        int,
        typer.Option(min=1, help="... or if reading its log files costs this many percent of writing its base file."),
    ] = 50,
    accept_damage: Annotated[
        bool,
        typer.Option("--accept-damage", help="Also file groups that lack a file: the loss of its rows is final then."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    lock: LockOption = "auto",
    storage_options: StorageOptions = None,
) -> None:
    """Merge the log files of file groups into base files, so that reads are fast: a Hudi compaction, without Java.

    The command may be repeated, also after a crash. It holds the
    table's lease: a running job is not disturbed, the command ends instead.
    """
    from bucketingest.cli.options import duration
    from bucketingest.cli.services.compact import EVERYTHING, compact_table
    from bucketingest.cli.services.held_table import TableChoice
    from bucketingest.services.compaction.choose import CompactionTriggers

    choice = TableChoice(url_of(table_url, topic), lock, tuple(storage_options or ()))
    triggers = CompactionTriggers(log_files, log_percent / 100, duration("--log-age", log_age))
    due = EVERYTHING if everything else triggers
    compact_table(choice, due, accept_damage=accept_damage, dry_run=dry_run, as_json=as_json)


def services(
    file: ResourceFile,
    *,
    topic: TopicOption = None,
    as_json: JsonOption = False,
    unknown_fields: UnknownFieldsOption = UnknownFields.REFUSE,
) -> None:
    """Do once what a job of this BucketIngest would do for its table now: compact, clean, archive; by its limits.

    For a table whose pipeline is suspended, or runs now and then. The command may be ended and repeated. It needs
    neither Spark nor Java, and ends if a job holds the table.
    """
    from bucketingest.cli.services.all_due import serve_table

    serve_table(file, topic, unknown_fields, as_json=as_json)


def sync(
    file: ResourceFile,
    *,
    topic: TopicOption = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Take the table off its catalogs instead. No data is deleted.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare also what is registered already, piece by piece, and mend it. With --dry-run the exit code "
            "is 22 if something differs.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    unknown_fields: UnknownFieldsOption = UnknownFields.REFUSE,
) -> None:
    """Compare the table with the catalogs of spec.catalogs, and register there what is missing.

    The command may be ended and repeated, also beside a running job: it does not touch the table.
    """
    from bucketingest.cli.services.sync import sync_file

    sync_file(file, topic, unknown_fields, drop=drop, check=check, dry_run=dry_run, as_json=as_json)


def handover(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    lock: LockOption = "auto",
    storage_options: StorageOptions = None,
) -> None:
    """Get a table ready for Hudi writers whose index looks into base files only: SIMPLE, Spark's default, and BLOOM.

    To them a key that is only in a log file is new, and their next write of it makes a second row. The command
    compacts the file groups that have such keys. It may be repeated, also after a crash, and ends if a job holds the
    table.
    """
    from bucketingest.cli.services.compact import hand_table_over
    from bucketingest.cli.services.held_table import TableChoice

    choice = TableChoice(url_of(table_url, topic), lock, tuple(storage_options or ()))
    hand_table_over(choice, dry_run=dry_run, as_json=as_json)


def compact_round(
    table_url: TableUrl,
    *,
    number: Annotated[int, typer.Option(min=1, help="Number of the compaction, in the table's services folder.")],
    round_number: Annotated[int, typer.Option("--round", min=1, help="Number of its round.")],
    index: Annotated[
        int, typer.Option(envvar="JOB_COMPLETION_INDEX", min=0, help="Place of this process among the others.")
    ] = 0,
    of: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    storage_options: StorageOptions = None,
) -> None:
    """Make base files of a compaction that a running job has started, and commits: what the pods of its Job run.

    Any number of these commands share the work. Each may be ended and repeated at any time. They need no lease.
    """
    from bucketingest.cli.services.compact import RoundChoice, compact_round

    compact_round(RoundChoice(table_url, number, round_number, index, of, tuple(storage_options or ())))


def clean(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    retain: Annotated[
        str | None,
        typer.Option(
            help="Time for which superseded files stay: longer than any query.", metavar="DURATION", show_default="24h"
        ),
    ] = None,
    versions: Annotated[
        int | None,
        typer.Option(min=1, help="Instead: keep this many of the newest versions of each file group, of any age."),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    lock: LockOption = "auto",
    storage_options: StorageOptions = None,
) -> None:
    """Delete files that a compaction has superseded: a Hudi clean, without Java. Savepoints are respected.

    A pending clean, also Hudi's, is finished first. The command may be repeated, and ends if a job holds the table.
    """
    from bucketingest.cli.services.clean_and_archive import clean_table, retention
    from bucketingest.cli.services.held_table import TableChoice

    choice = TableChoice(url_of(table_url, topic), lock, tuple(storage_options or ()))
    clean_table(choice, retention(retain, versions), dry_run=dry_run, as_json=as_json)


def archive(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    commits: Annotated[
        int | None, typer.Option(min=20, help="Number of the newest commits that stay.", show_default="20")
    ] = None,
    retain: Annotated[
        str | None,
        typer.Option(help="Time for which a commit stays at least.", metavar="DURATION", show_default="1h"),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    lock: LockOption = "auto",
    storage_options: StorageOptions = None,
) -> None:
    """Move old instants from the active timeline into Hudi's archived history, without Java: listings stay short.

    The command ends if a job holds the table.
    """
    from bucketingest.cli.services.clean_and_archive import archive_rules, archive_table
    from bucketingest.cli.services.held_table import TableChoice

    choice = TableChoice(url_of(table_url, topic), lock, tuple(storage_options or ()))
    archive_table(choice, archive_rules(commits, retain), dry_run=dry_run, as_json=as_json)
