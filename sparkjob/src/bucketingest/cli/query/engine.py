"""A query, from its table to its rows: hudi-rs merges base and log files, DataFusion computes. Neither writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import typer

from bucketingest.cli.errors import BadOption, MissingDependency
from bucketingest.cli.query.formats import Format, print_rows
from bucketingest.cli.query.moments import Moments, check_kept
from bucketingest.cli.query.within_limits import QueryFailed, too_large
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.table.checks import version_refusals
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.facts import last_earliest
from bucketingest.storage import Storage, object_store_settings, open_storage

if TYPE_CHECKING:
    from datafusion import SessionContext

_SHORT_NAME: Final = "t"
_POOL_SHARE: Final = 0.5
"""Of the memory: for DataFusion's sorts, joins and groups. What hudi-rs reads and merges is not counted there."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, of which table."""

    url: str
    sql: str
    moments: Moments = field(default_factory=Moments)
    rows: int = 100
    """Printed at most; 0: all."""
    output: Format = Format.TABLE
    memory_bytes: int = 2 * 1024**3
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the storage."""


def run_query(query: Query) -> None:
    """Run it and print its rows; on stderr, whether there are more.

    Raises MissingDependency, BadOption for wrong SQL and moments that are gone, QueryFailed, QueryTooLarge,
    UnsupportedTable, TableNotFound, and what storage raises.
    """
    try:
        import datafusion  # noqa: F401
        import hudi  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"{error}: query needs hudi-rs and DataFusion: pip install 'bucketingest[query]'"
        ) from error
    storage = open_storage(query.url, query.options)
    table = load_table(storage)
    if reasons := version_refusals(table.properties):
        raise UnsupportedTable(storage.url, reasons)
    name = table.properties["hoodie.table.name"]
    context = _context(query.memory_bytes)
    with _failures_named(query, f"hudi-rs cannot read {storage.url}"):
        _register(context, name, _source(storage, query, name))
        frame = _planned(context, query.sql, name)
    with _failures_named(query, f"{storage.url}: the query failed while it ran"):
        batches = (batch.to_pyarrow() for batch in frame.execute_stream())
        if print_rows(batches, frame.schema(), query.output, query.rows):
            typer.echo(f"cut after {query.rows} rows: there are more; --rows 0 prints all", err=True)


def _context(memory_bytes: int) -> SessionContext:
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    pool = RuntimeEnvBuilder().with_disk_manager_disabled().with_greedy_memory_pool(int(memory_bytes * _POOL_SHARE))
    return SessionContext(SessionConfig().with_information_schema(enabled=True), pool)


def _register(context: SessionContext, name: str, source: Any) -> None:
    for each in dict.fromkeys((name, _SHORT_NAME)):
        context.register_table('"{}"'.format(each.replace('"', '""')), source)


def _source(storage: Storage, query: Query, name: str) -> Any:
    """What DataFusion reads: the files, for a local table as it is; else rows in memory, of columns that are needed.

    Seen with hudi-rs 0.5: its data source for DataFusion panics on an object store, and reads the newest rows whatever
    instant it is given.
    """
    from hudi import HudiDataFusionDataSource, HudiQueryType, HudiReadOptions, HudiTableBuilder

    url, settings = object_store_settings(query.url, query.options)
    timeline = Timeline.load(storage)
    moments = query.moments.completed(timeline)
    archived = bool(storage.list_level(f"{TIMELINE_DIRECTORY}/history").objects)
    check_kept(moments, timeline, last_earliest=last_earliest(storage, timeline), archived=archived)
    if moments == Moments() and not settings:
        return HudiDataFusionDataSource(url)
    table = HudiTableBuilder.from_base_uri(url).with_storage_options(settings).build()
    schema = table.get_schema_with_meta_fields().remove_metadata()
    if not (columns := _columns(query, name, schema)):  # as DESCRIBE
        return _in_memory(schema.empty_table())
    options = HudiReadOptions(projection=columns)
    if moments.as_of is not None:
        options = options.with_as_of_timestamp(moments.as_of)
    if moments.since is not None:
        options = options.with_query_type(HudiQueryType.Incremental).with_start_timestamp(moments.since)
    if moments.until is not None:
        options = options.with_end_timestamp(moments.until)
    batches = table.read(options)
    return _in_memory(pa.Table.from_batches(batches) if batches else schema.empty_table())


def _in_memory(rows: pa.Table) -> Any:
    from datafusion import SessionContext

    return SessionContext().from_arrow(rows.replace_schema_metadata(None)).into_view()


def _columns(query: Query, name: str, schema: pa.Schema) -> list[str]:
    """Columns that the query scans, at least one; none if it does not scan the table. Raises BadOption."""
    context = _context(query.memory_bytes)
    _register(context, name, _in_memory(schema.empty_table()))
    plan = _planned(context, query.sql, name).optimized_logical_plan()
    if "subquery" in plan.display_indent().lower():  # `inputs` leaves out one that is inside an expression
        return list(schema.names)
    plans, scanned = [plan], list[set[str]]()
    while plans:
        each = plans.pop()
        plans.extend(each.inputs())
        variant = each.to_variant()
        if type(variant).__name__ == "TableScan" and variant.table_name() in (name, _SHORT_NAME):
            scanned.append({column for _, column in variant.projection()})
    found = [column for column in schema.names if any(column in each for each in scanned)]
    return found or schema.names[: len(scanned)][:1]


def _planned(context: SessionContext, sql: str, name: str) -> Any:
    """Raises BadOption, for everything but one statement that only reads."""
    from datafusion import SQLOptions

    only_reads = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    try:
        frame = context.sql_with_options(sql, only_reads)
        frame.optimized_logical_plan()  # finds more, such as a text that is no number
    except Exception as error:
        raise BadOption(
            f"the SQL cannot be run: {error}. One SELECT is possible; the table is called {name} or {_SHORT_NAME}, and "
            f"names with upper case letters need double quotes; DESCRIBE {_SHORT_NAME} shows the columns"
        ) from error
    return frame


@contextmanager
def _failures_named(query: Query, what: str) -> Iterator[None]:
    """Turns what the engines raise into QueryFailed and QueryTooLarge; our own errors stay."""
    from bucketingest.errors import BucketIngestError

    try:
        yield
    except (KeyboardInterrupt, SystemExit, BucketIngestError, BrokenPipeError):
        raise
    except BaseException as error:  # a panic in Rust arrives as a BaseException of no importable class
        if "Resources exhausted" in str(error):
            raise too_large(query.memory_bytes) from error
        raise QueryFailed(
            f"{what}: {str(error).rstrip('. ')}. `bucketingest inspect {query.url}` says whether its files are sound"
        ) from error
