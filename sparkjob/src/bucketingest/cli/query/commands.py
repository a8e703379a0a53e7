"""The command `query`, as the command line shows it: it carries itself out in a second process, which it limits."""

from __future__ import annotations

from typing import Annotated

import typer

from bucketingest.cli.query.formats import Format
from bucketingest.cli.table_options import StorageOptions, TableUrl, TopicOption, url_of
from bucketingest.cli.table_options import storage_options as parsed_options


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
