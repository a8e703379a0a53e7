"""What a query reads, and what becomes of it, by the schemas that the columns may have: the first that the table takes
is taken, and it may change while the query runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from bucketingest.decode.registered.subjects import readers_schemas, registry_client, to_keep, with_columns
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.lookups import Patience, SchemaLookups
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.growth import Growth, Started
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.stream.source.key_columns import with_record_key
from bucketingest.stream.source.registered import RegisteredMessages
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.spark.session import prepared
from bucketingest.write.instants.commit_content import read_as_of
from bucketingest.write.open_table import check_definition


@dataclass(frozen=True, slots=True)
class Input:
    """What a query reads, and what becomes of it: it changes with the schema of the columns."""

    rows: DataFrame
    pipeline: Pipeline
    shape: RowShape
    registered: RegisteredMessages | None = None
    read_as: str = ""
    """What `OpenTable` keeps of the resource."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a resource may read, by schemas of which the first that its table takes is taken."""

    versions: Iterator[Callable[[], Input]]
    columns: ColumnsSchema | None = None
    """The schema that is taken, if it grows."""
    with_schema: Callable[[str], Input] | None = None
    """An input with another one."""

    def again(
        self, given: Input, start: Callable[[Input], Started], asked: SchemaGrown | None, stop: threading.Event
    ) -> Started:
        """Starts once more, with the columns that are asked for if the table can have them. `given`: if they do not
        grow. `stop`: the job is to stop.
        """
        if self.columns is None or self.with_schema is None:
            return start(given)
        return Growth(self.columns, self.with_schema, start).starter(asked, stop)


def inputs_of(
    session: SparkSession,
    resource: BucketIngest,
    rows: DataFrame,
    board: ProgressBoard,
    *,
    service_jobs: bool = False,
    planned: Callable[[RowShape, DataFrame], RowShape] = RowShape.planned,
) -> Inputs:
    """`rows`: the source's, which are not read. `planned`: asks Spark about the shape of rows. Raises as
    `ingest_resource` does.
    """
    client, columns = _registry(resource), _growing_columns(resource)
    lookups = None if client is None else SchemaLookups(client)
    resource = with_record_key(resource, session, client, Patience())

    def given(read_as: BucketIngest) -> Input:
        with prepared(session):
            pipeline = Pipeline.of(read_as)
            pipeline = replace(pipeline, services=replace(pipeline.services, makes_jobs=service_jobs))
            shape = planned(RowShape(read_as, pipeline.delete_when), rows)
            if lookups is None:
                return Input(rows, pipeline, shape)
            stops = read_as.spec.errors.unreadable_schema == "stop"
            kept = to_keep(read_as) if columns is not None else ""
            registered = RegisteredMessages(shape, rows, lookups, columns=columns, stops=stops, tell=board.schemas)
            return Input(rows, pipeline, shape, registered, kept)

    taken = resource

    def first(read_as: BucketIngest) -> Input:
        nonlocal taken
        taken = read_as
        if columns is not None and read_as.spec.format is not None:
            columns.text = read_as.spec.format.columns_text
        return given(read_as)

    versions = iter([resource])
    if client is not None:
        pipeline = Pipeline.of(resource)
        kept = read_as_of(open_storage(pipeline.table_url, pipeline.storage_options), pipeline.name)
        versions = readers_schemas(resource, client, Patience(), kept)
    made = (partial(first, each) for each in versions)
    return Inputs(made, columns, lambda text: given(with_columns(taken, text)))


def checked(given: Input) -> Input:
    """The input, if a table may have such columns. Raises as `check_definition`."""
    check_definition(given.pipeline.definition, given.shape.schema(given.rows))
    return given


def _registry(resource: BucketIngest) -> RegistryClient | None:
    format_ = resource.spec.format
    return None if format_ is None or format_.registry is None else registry_client(format_.registry)


def _growing_columns(resource: BucketIngest) -> ColumnsSchema | None:
    """The schema of the columns if it grows with the messages'."""
    format_ = resource.spec.format
    if format_ is None or not format_.follows_registry:
        return None
    return ColumnsSchema(resource.spec.schema_evolution.mode)
