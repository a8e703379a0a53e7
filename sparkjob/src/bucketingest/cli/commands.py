"""The commands `query`, `audit` and `retry`, as the command line shows them. `query` carries itself out in a second
process, which it limits.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from bucketingest.cli.options import UnknownFields
from bucketingest.cli.query.formats import Format
from bucketingest.cli.table_options import (
    JsonOption,
    ResourceFile,
    StorageOptions,
    TableUrl,
    TopicOption,
    UnknownFieldsOption,
    url_of,
)
from bucketingest.cli.table_options import storage_options as parsed_options
from bucketingest.exit_codes import ExitCode


def query(
    table: TableUrl,
    sql: Annotated[str, typer.Argument(help="One SELECT; the table has its own name, and `t`.", show_default=False)],
    *,
    topic: TopicOption = None,
    as_of: Annotated[
        str | None, typer.Option(help="The table as of this instant, as `inspect` shows them.", metavar="INSTANT")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only the latest rows of keys that changed after this instant.", metavar="INSTANT"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="With --since: up to this instant.", metavar="INSTANT", show_default="the newest")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many rows to print at most; 0: all.")] = 100,
    output: Annotated[Format, typer.Option("--format", "-f", help="How rows are printed.")] = Format.TABLE,
    timeout: Annotated[str, typer.Option(help="How long the query may take.", metavar="DURATION")] = "5m",
    memory: Annotated[str, typer.Option(help="How much memory it may take.", metavar="QUANTITY")] = "2Gi",
    storage_options: StorageOptions = None,
    here: Annotated[bool, typer.Option("--here", hidden=True)] = False,
) -> None:
    """Run SQL on a table and print the rows: every commit is seen, with log files. Needs no Java, and writes nothing.

    It needs hudi-rs and DataFusion: pip install 'bucketingest[query]'.
    """
    from bucketingest.cli.app import common_options
    from bucketingest.cli.query.moments import Moments
    from bucketingest.cli.query.within_limits import Limits, run_within

    limits = Limits.of(timeout, memory)
    moments = Moments.of(as_of, since, until)
    url = url_of(table, topic)
    options = parsed_options(storage_options or ())
    if here:
        from bucketingest.cli.query.engine import Query, run_query

        run_query(Query(url, sql, moments, rows, output, limits.memory_bytes, options))
        return
    own = ["--debug"] if common_options.debug else []
    stored = [part for text in storage_options or () for part in ("--storage-option", text)]
    again = [*own, "query", "--here", "--rows", str(rows), "--format", output, "--memory", memory, *moments.options]
    common_options.writes_termination = True  # the second process does
    raise typer.Exit(run_within(limits, [*again, *stored, "--", url, sql]))


def audit(
    file: ResourceFile,
    *,
    topic: TopicOption = None,
    against: Annotated[
        str,
        typer.Option(
            envvar="BUCKETINGEST_AGAINST",
            help="The source: postgres://USER@HOST/DATABASE. Its password: PGPASSWORD, or a file, PGPASSFILE.",
            show_default=False,
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(help="The source's table.", metavar="SCHEMA.TABLE", show_default="as the topic's name ends"),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Compare these beside the key.", metavar="NAME,NAME", show_default="all that both have"),
    ] = None,
    range_rows: Annotated[int, typer.Option(min=1000, help="Rows of the source that a statement reads.")] = 50_000,
    pause: Annotated[str, typer.Option(help="Between two statements.", metavar="DURATION")] = "0s",
    statement_timeout: Annotated[
        str, typer.Option(help="Longest time of a statement in the source.", metavar="DURATION")
    ] = "60s",
    settle: Annotated[
        str,
        typer.Option(help="How long a change may take from the source into the table.", metavar="DURATION"),
    ] = "2m",
    as_json: JsonOption = False,
    unknown_fields: UnknownFieldsOption = UnknownFields.REFUSE,
) -> None:
    """Compare the table with the database's table that it mirrors, and say which keys differ; exit code 22 then.

    It reads both, writes nothing, and may run beside the job. It needs psycopg: pip install 'bucketingest[audit]'.
    """
    from bucketingest.cli.audit.command import Asked, audit_file
    from bucketingest.cli.audit.source import Load
    from bucketingest.cli.errors import BadOption
    from bucketingest.cli.options import duration

    seconds = {
        name: duration(f"--{name}", text).total_seconds()
        for name, text in {"pause": pause, "statement-timeout": statement_timeout, "settle": settle}.items()
    }
    if seconds["statement-timeout"] < 1:
        raise BadOption(f"--statement-timeout: {statement_timeout} is too short; it is one second or more")
    load = Load(range_rows, seconds["pause"], seconds["statement-timeout"])
    names = tuple(filter(None, (columns or "").split(",")))
    asked = Asked(against, table, names, load, seconds["settle"])
    audit_file(file, topic, asked, as_json=as_json, unknown_fields=unknown_fields)


def retry(
    file: ResourceFile,
    *,
    reasons: Annotated[
        list[str] | None,
        typer.Option("--reason", help="Only letters with this reason; may be repeated.", show_default="all"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only those rejected from then on, such as 2026-11-28T20:00Z.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only those rejected before then.", metavar="TIME")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which would be rows now; write no row.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ingest dead letters again after a mend: each row once, and older than rows of its key that came since.

    Suspend the pipeline first: the command holds the table. It reads the topic from the oldest of these letters on. It
    may be repeated, also after a crash. Ends with code 22 if letters stay.
    """
    from bucketingest.cli.job import Job
    from bucketingest.cli.options import RunOptions, UnknownFields, load_known
    from bucketingest.cli.run import in_spark
    from bucketingest.stream.retry.letters import Asked
    from bucketingest.stream.retry.start import kafka_of, retry_resource

    asked = Asked(frozenset(reasons or ()), _instant("--since", since) or "", _instant("--until", until) or "9")
    resource = load_known(file, UnknownFields.REFUSE)
    kafka_of(resource)
    job = Job(RunOptions())
    with job.ending():
        job.concerns(resource)
        outcome = in_spark(resource, job, lambda session, _: retry_resource(session, resource, asked, dry_run=dry_run))
    if as_json:
        typer.echo(json.dumps(asdict(outcome) | {"dryRun": dry_run}))
    else:
        would = "would be rows now" if dry_run else f"are rows now, in commits {', '.join(outcome.commits) or 'none'}"
        typer.echo(f"{outcome.retried} of {outcome.asked} dead letters {would}")
        for why, count in sorted(outcome.stay.items(), key=lambda each: -each[1]):
            typer.echo(f"{count} stay: {why}")
    if outcome.stay:
        raise typer.Exit(ExitCode.FINDINGS)


def _instant(option: str, text: str | None) -> str | None:
    """A time as the timeline writes it, in UTC unless it names an offset. Raises BadOption."""
    from bucketingest.cli.errors import BadOption
    from bucketingest.hudi.timeline.instant_time import format_time

    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError as error:
        raise BadOption(f"{option}: {text} is not a time such as 2026-11-28T20:00Z") from error
    return None if moment is None else format_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
