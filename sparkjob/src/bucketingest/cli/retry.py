"""`bucketingest retry`: dead letters that are rows after a mend. The command, and what it prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from bucketingest.cli.table_options import JsonOption, ResourceFile
from bucketingest.exit_codes import ExitCode


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
