"""The command `audit`, as the command line shows it."""

from __future__ import annotations

from typing import Annotated

import typer

from bucketingest.cli.options import UnknownFields
from bucketingest.cli.table_options import JsonOption, ResourceFile, TopicOption, UnknownFieldsOption


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
