"""`bucketingest demo`: writes a BucketIngest, runs it, reads the table back, and says whether all rows are there."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from bucketingest.cli.demo.orders import BrokerUnavailable, OrderProducer, compare
from bucketingest.cli.demo.resources import RATE_KEYS, kafka_yaml, rate_yaml
from bucketingest.cli.errors import CommandError, MissingDependency, WrongResult
from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.render import show_timeline
from bucketingest.cli.inspection.services import Rules
from bucketingest.cli.process.java import check_java
from bucketingest.cli.run import run_resource
from bucketingest.exit_codes import ExitCode
from bucketingest.spec.reading.load import load_file
from bucketingest.storage import open_storage

if TYPE_CHECKING:
    from bucketingest.stream.report.progress import Progress

_ROWS_SHOWN: Final = 5
_INSTANTS_SHOWN: Final = 8
_PENDING_LIMIT: Final = timedelta(minutes=10)
_WIDTH_ELSEWHERE: Final = 120


class NotEmpty(CommandError):
    """The demo's directory holds an earlier demo."""

    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What can be chosen about a demo."""

    seconds: int
    """Seconds for which rows are made."""
    rows_per_second: int
    directory: Path | None
    """None: a new temporary directory."""
    bootstrap_servers: str | None


def run_demo(options: DemoOptions, *, kafka: bool) -> None:
    """Run the demo. Raises MissingDependency before anything is written, WrongResult if rows are lost or doubled."""
    if kafka and not options.bootstrap_servers:
        raise typer.BadParameter(
            "--kafka needs a broker: --bootstrap-servers HOST:PORT, or `make demo-kafka`, which brings one along"
        )
    check_java()
    check_reader()
    directory = _directory(options.directory)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_ELSEWHERE)
    if kafka:
        _kafka_demo(options, directory, console)
    else:
        _rate_demo(options, directory, console)
    question = "SELECT region, count(*) FROM t GROUP BY region"
    console.print(
        "\nWhat to try next:", f'  bucketingest query {directory}/table "{question}"', sep="\n", soft_wrap=True
    )
    console.print(f"  bucketingest inspect {directory}/table", soft_wrap=True)
    if not kafka:
        console.print(f"  bucketingest run {directory}/demo.yaml", soft_wrap=True)


def _rate_demo(options: DemoOptions, directory: Path, console: Console) -> None:
    progress = _ingest(directory, rate_yaml(directory, options.rows_per_second), console, _Seconds(options.seconds))
    table = _show_table(directory, console)
    # The source counts up from 0 and takes the remainder: so many different keys there are after so many rows.
    expected = min(progress.rows, RATE_KEYS)
    console.print(
        f"{progress.rows:,} rows were ingested, of {expected:,} different keys; hudi-rs reads {table.num_rows:,} rows"
    )
    newest = list(range(progress.rows - expected, progress.rows))
    if sorted(table["reading"].to_pylist()) != newest:
        raise WrongResult(f"{directory}/table does not hold the newest reading of every sensor, each once")
    console.print("[green]Every sensor is there once, with its newest reading.[/]")


def _kafka_demo(options: DemoOptions, directory: Path, console: Console) -> None:
    assert options.bootstrap_servers is not None, "asked before"
    producer = OrderProducer(options.bootstrap_servers, options.rows_per_second, options.seconds)
    text = kafka_yaml(directory, options.bootstrap_servers, producer.topic)
    try:
        progress = _ingest(directory, text, console, _AllOf(producer))
    finally:
        producer.stop()
    if producer.failure is not None:
        raise BrokerUnavailable(f"messages were not delivered to {options.bootstrap_servers}: {producer.failure}")
    if progress.rows < producer.orders.made:
        console.print(f"stopped before all was ingested: {progress.rows:,} of {producer.orders.made:,} messages")
        return
    table = _show_table(directory, console)
    columns: Sequence[list[Any]] = [table[name].to_pylist() for name in ("order_id", "amount", "version")]
    found = compare(producer.orders.rows, list(zip(*columns, strict=True)))
    console.print(
        f"{producer.orders.made:,} messages were produced, {progress.rows:,} ingested, {progress.deletes:,} deletes. "
        f"The table must have {found.expected:,} rows; hudi-rs reads {found.read:,}: {found.missing} missing, "
        f"{found.unexpected} too many, {found.different} with other values"
    )
    if not found.equal:
        raise WrongResult(f"{directory}/table is not what the messages make it")
    console.print("[green]Every order is there once, in its newest version, and no deleted one.[/]")


class _Seconds:
    """True once rows have come in for so long."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __call__(self, progress: Progress) -> bool:
        return progress.running_for >= self._seconds and progress.rows > 0


class _AllOf:
    """True once the table has every message, or none will follow. Messages are made from the first question on."""

    def __init__(self, producer: OrderProducer) -> None:
        self._producer = producer
        self._started = False

    def __call__(self, progress: Progress) -> bool:
        if not self._started:
            self._started = True
            self._producer.start()
        all_there = self._producer.ended and progress.rows >= self._producer.orders.made
        return all_there or self._producer.failure is not None


def _ingest(directory: Path, text: str, console: Console, stop_when: _Seconds | _AllOf) -> Progress:
    file = directory / "demo.yaml"
    file.write_text(text, encoding="utf-8")
    console.print(f"The BucketIngest of this demo: {file}\nStarting Spark ...", soft_wrap=True)
    return run_resource(load_file(file), stop_when=stop_when)


def _show_table(directory: Path, console: Console) -> pa.Table:
    """The table as hudi-rs reads it, after showing its commits and some rows."""
    storage = open_storage(str(directory / "table"))
    report = inspected(storage, Rules(), instants=_INSTANTS_SHOWN, pending_limit=_PENDING_LIMIT)
    console.print()
    show_timeline(report.timeline, console)
    table = read_table(directory / "table")
    shown = Table(title=f"{_ROWS_SHOWN} of {table.num_rows:,} rows, read by hudi-rs", title_justify="left", box=None)
    for name in table.column_names:
        shown.add_column(name, style="cyan")
    for row in first_rows(table, _ROWS_SHOWN):
        shown.add_row(*map(str, row.values()))
    console.print(shown)
    return table


def _directory(chosen: Path | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="bucketingest-demo-"))
    directory = chosen.expanduser().absolute()
    if (directory / "table").exists():
        raise NotEmpty(
            f"{directory}/table is there already, from an earlier demo: delete it or name another --directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    return directory


META_PREFIX = "_hoodie_"


def check_reader() -> None:
    """Raise MissingDependency unless hudi-rs can be imported; asked before the demo spends half a minute writing."""
    try:
        import hudi  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "the demo reads its table back with hudi-rs, which is missing: pip install hudi==0.5.0"
        ) from error


def read_table(path: Path) -> pa.Table:
    """The table's rows as they are now, without meta columns. Raises WrongResult if hudi-rs cannot read it."""
    from hudi import HudiTableBuilder

    try:
        batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust arrives as a BaseException of no importable class
        raise WrongResult(f"hudi-rs cannot read {path}: {error}") from error
    if not batches:
        raise WrongResult(f"hudi-rs finds no row in {path}")
    table = pa.Table.from_batches(batches)
    return table.select([name for name in table.column_names if not name.startswith(META_PREFIX)])


def first_rows(table: pa.Table, count: int) -> list[dict[str, Any]]:
    """A few rows, those with the smallest values in the first column."""
    column = table.column_names[0]
    return table.sort_by(column).slice(0, count).to_pylist()
