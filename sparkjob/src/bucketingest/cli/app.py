"""The commands and their options, as the help shows them; each imports the module that does its work when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from bucketingest.cli.commands import audit, query, retry
from bucketingest.cli.exit_code_of_error import exit_code_table
from bucketingest.cli.options import DEFAULT_GRACE, TERMINATION_LOG_VARIABLE, RunOptions, UnknownFields
from bucketingest.cli.process.logs import LogFormat, configure_logs
from bucketingest.cli.services import commands as services
from bucketingest.cli.table_options import (
    DryRunOption,
    LockOption,
    ResourceFile,
    StorageOptions,
    TableUrl,
    TopicOption,
    UnknownFieldsOption,
    is_resource,
    url_of,
)
from bucketingest.exit_codes import ExitCode

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Exit codes:\n\n{exit_code_table()}",
)


@dataclass
class CommonOptions:
    """What holds for every command."""

    debug: bool = False
    log_format: LogFormat = LogFormat.AUTO
    writes_termination: bool = False
    """Whether the command that runs writes a termination message itself."""


common_options = CommonOptions()


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"bucketingest {version('bucketingest')}")
        except PackageNotFoundError:
            typer.echo("bucketingest (not installed)")
        raise typer.Exit


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Log more, and show the traceback of an error.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Log lines on stderr; auto: text in a terminal, json elsewhere.")
    ] = LogFormat.AUTO,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Ingest streams into Apache Hudi merge-on-read tables with a bucket index."""
    common_options.debug, common_options.log_format = debug, log_format
    configure_logs(log_format, debug=debug)


@app.command()
def run(
    file: ResourceFile,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Ingest all available input, then stop; overrides spec.commit.trigger.")
    ] = False,
    grace: Annotated[
        str,
        typer.Option(
            envvar="BUCKETINGEST_GRACE",
            help="Time to finish after a stop signal; then exit code 19.",
            metavar="DURATION",
        ),
    ] = DEFAULT_GRACE,
    listen: Annotated[
        str | None,
        typer.Option(
            envvar="BUCKETINGEST_LISTEN",
            help="Address of /healthz, /readyz, /progress and /metrics, such as :9808.",
            metavar="HOST:PORT",
            show_default="off",
        ),
    ] = None,
    termination_log: Annotated[
        Path | None,
        typer.Option(
            envvar=TERMINATION_LOG_VARIABLE,
            help="File for the JSON message that says how the run ended.",
            show_default="/dev/termination-log where there is one",
        ),
    ] = None,
    unknown_fields: UnknownFieldsOption = UnknownFields.REFUSE,
    service_jobs: Annotated[
        bool, typer.Option("--service-jobs", envvar="BUCKETINGEST_SERVICE_JOBS", hidden=True)
    ] = False,
    ended_drivers: Annotated[str, typer.Option(envvar="BUCKETINGEST_ENDED_DRIVERS", hidden=True)] = "",
) -> None:
    """Run the pipeline of a BucketIngest on this machine, or as its driver.

    Ctrl-C or SIGTERM ends it after the current micro-batch and a commit; a second one kills it. The next start
    continues at the table's position.
    """
    from bucketingest.cli.run import run_file

    options = RunOptions.of(
        once=once,
        grace=grace,
        listen=listen,
        termination_log=termination_log,
        service_jobs=service_jobs,
        ended_drivers=ended_drivers,
        unknown_fields=unknown_fields,
    )
    common_options.writes_termination = True
    run_file(file, options)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="YAML files, each with one BucketIngest.", show_default=False)],
    *,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Also ask storage, source and schema registry, and compile the SQL. Nothing is written or locked.",
        ),
    ] = False,
    unknown_fields: UnknownFieldsOption = UnknownFields.REFUSE,
) -> None:
    """Check BucketIngest files: every problem with its line and what is allowed there.

    Of other services it asks only a schema registry that a file names, and with --connect all that `run` would need.
    """
    if connect:
        from bucketingest.cli.connect.command import connect_files

        if (code := connect_files(files, unknown_fields)) is not ExitCode.OK:
            common_options.writes_termination = True  # it has written one
            raise typer.Exit(code)
        return
    from bucketingest.cli.validate import validate_files

    validate_files(files, unknown_fields)


@app.command()
def inspect(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as one JSON object.")] = False,
    instants: Annotated[int, typer.Option(min=1, max=1000, help="How many of the newest instants to show.")] = 10,
    pending_limit: Annotated[
        str, typer.Option(help="Age from which a pending instant counts as hanging.", metavar="DURATION")
    ] = "10m",
    resource: Annotated[
        Path | None,
        typer.Option(help="A BucketIngest file: its limits say which table services are due, not the defaults."),
    ] = None,
) -> None:
    """Show a table's timeline, file groups, pipelines, due table services, and what is wrong. Changes nothing.

    Ends with code 22 if something is wrong.
    """
    from bucketingest.cli.inspection.command import inspect_table

    resource = resource or (Path(table_url) if is_resource(table_url) else None)
    url = url_of(table_url, topic)
    inspect_table(url, as_json=as_json, instants=instants, pending_limit=pending_limit, resource=resource)


@app.command()
def rollback(
    table_url: TableUrl,
    *,
    topic: TopicOption = None,
    instants: Annotated[
        list[str] | None,
        typer.Option("--instant", help="Only this instant, also another writer's; may be repeated.", metavar="TIME"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also instants that another process may write. Fences a live driver out.")
    ] = False,
    dry_run: DryRunOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print plan and results as one JSON object.")] = False,
    lock: LockOption = "auto",
    storage_options: StorageOptions = None,
) -> None:
    """Roll back what failed attempts left: instants of bucketingest that never completed, and unfinished rollbacks.

    An instant whose commit was decided is completed instead. Other writers' instants are rolled back only if named.
    The command may be repeated, also after a crash.
    """
    from bucketingest.cli.rollback import RollbackRequest, roll_back_table

    roll_back_table(
        RollbackRequest(
            url_of(table_url, topic),
            tuple(instants or ()),
            force=force,
            dry_run=dry_run,
            json=as_json,
            lock=lock,
            storage_options=tuple(storage_options or ()),
        )
    )


@app.command()
def demo(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Ingest from a Kafka topic, which the demo makes and fills.")
    ] = False,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(envvar="KAFKA_BOOTSTRAP_SERVERS", help="Kafka broker for --kafka.", metavar="HOST:PORT"),
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="Seconds for which rows are made.")] = 20,
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows made per second.")] = 5000,
    directory: Annotated[
        Path | None, typer.Option(help="Where everything is written.", show_default="a new temporary directory")
    ] = None,
) -> None:
    """Ingest made-up rows into a new table for some seconds, then read it back with another implementation of Hudi."""
    from bucketingest.cli.demo.command import DemoOptions, run_demo

    run_demo(DemoOptions(seconds, rows, directory, bootstrap_servers), kafka=kafka)


for command in (
    services.services,
    services.compact,
    services.clean,
    services.archive,
    services.handover,
    services.sync,
    query,
    audit,
    retry,
):
    app.command()(command)
app.command(hidden=True)(services.compact_round)
