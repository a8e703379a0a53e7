"""The checks of one resource: everything that `run` would need is asked, and nothing is written, leased or locked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.connect.offline import offline_problems
from bucketingest.cli.connect.results import Check, Found, Results
from bucketingest.cli.job import keep_secrets_of
from bucketingest.cli.validate import ask_registry
from bucketingest.decode.decoder_choice import has_ways
from bucketingest.decode.registered.subjects import readers_schemas, registry_client
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import TableNotFound, UnsupportedTable
from bucketingest.hudi.naming import HOODIE_DIRECTORY
from bucketingest.hudi.table.checks import version_refusals
from bucketingest.hudi.table.table import load_table
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.lookups import Patience
from bucketingest.spec.errors import SpecError
from bucketingest.spec.many_tables import override_of, table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from bucketingest.stream.pipeline import Pipeline
    from bucketingest.stream.topics.brokers import Topic

SOURCE_SECONDS: Final = 20.0
STORAGE_SECONDS: Final = 30.0
REGISTRY_SECONDS: Final = 30.0
SPARK_SECONDS: Final = 90.0
SQL_SECONDS: Final = 60.0


def check_all(resource: BucketIngest, spark: CheckingSpark, show: Callable[[Check], None]) -> Results:
    """Make every check that can be made; one that fails does not keep the others from being made."""
    results = Results(show)
    format_ = resource.spec.format
    is_many = resource.spec.tables is not None
    if results.check("access", STORAGE_SECONDS, lambda: _secrets_of(resource), str) is None:
        return results
    if is_many:
        results.check("tables", STORAGE_SECONDS, lambda: _tables_fit(resource), str)
    known: BucketIngest | None = resource
    if format_ is not None and (registry := format_.registry) is not None:
        known = results.check(
            "registry",
            REGISTRY_SECONDS,
            lambda: (
                _registry_of_many(resource, registry_client(registry))
                if is_many
                else ask_registry(resource, registry_client(registry))
            ),
            lambda _: f"{registry.url} answers",
        )
    results.check("storage", STORAGE_SECONDS, lambda: look_at_storage(resource.spec.table.path, table=not is_many), str)
    if (letters := resource.dead_letter_path) is not None:
        results.check("dead letters", STORAGE_SECONDS, lambda: look_at_storage(letters, table=False), str)
    session = results.check(
        "spark", SPARK_SECONDS, lambda: spark.session_for(resource), lambda found: f"Spark {found.version}"
    )
    if session is None:
        return results
    topics = _check_source(results, resource, session)
    if known is None:
        return results
    if not is_many:
        _check_table(results, resource, session)
    elif topics is not None and not any(each.name == "tables" for each in results.failed):
        for topic in _samples(resource, topics.names):
            _check_table(results, table_resource(resource, topic), session, f" of {topic}")
    return results


def _check_source(results: Results, resource: BucketIngest, session: SparkSession) -> _Topics | None:
    """The topics of Kafka that were found."""
    if resource.spec.source.files is not None:
        results.check("source", SOURCE_SECONDS, lambda: _look_at_files(resource), str)
    if resource.spec.source.kafka is None:
        return None
    topics = results.check("source", SOURCE_SECONDS, lambda: _look_at_kafka(session, resource), str)
    if topics is not None and resource.spec.commit.at == "transaction":
        results.check("transactions", SOURCE_SECONDS, lambda: _look_at_transactions(session, resource, topics), str)
    return topics


def _check_table(results: Results, resource: BucketIngest, session: SparkSession, of: str = "") -> None:
    inputs = _by_versions(session, resource)
    compiled = results.check(f"sql{of}", SQL_SECONDS, lambda: _first_taken(inputs, lambda found: found), _columns)
    if compiled is not None:
        storage_failed = any(each.name == "storage" for each in results.failed)
        if not storage_failed:
            made = chain([lambda: compiled.taken], inputs)
            results.check(f"table{of}", STORAGE_SECONDS, lambda: _first_taken(made, _fits), lambda found: found.said)


def _samples(resource: BucketIngest, topics: Iterable[str]) -> list[str]:
    """Of many tables a topic of each override, and one that none is for: as many as a check has time for."""
    found: dict[int, str] = {}
    for topic in sorted(topics):
        found.setdefault(id(override_of(resource, topic)), topic)
    return list(found.values())


def _tables_fit(resource: BucketIngest) -> str:
    if problems := offline_problems(resource):
        raise SpecError(problems)
    return "the fields of each override fit"


def _registry_of_many(resource: BucketIngest, client: RegistryClient) -> BucketIngest:
    """Its schemas are asked for with each topic."""
    client.check()
    return resource


def look_at_storage(url: str, *, table: bool = True) -> str:
    """What is at the place, in words. Raises StorageError, InvalidTable for what is no table of Hudi, and
    UnsupportedTable for a table of a version that is not known.
    """
    storage = open_storage(url)
    # An object store tells a bucket that is missing from an object that is missing only when it lists.
    storage.list_level(HOODIE_DIRECTORY)
    if not table:
        return f"{storage.url} can be read"
    try:
        found = load_table(storage)
    except TableNotFound:
        return f"{storage.url} can be read; there is no table yet, the first start makes it"
    if reasons := version_refusals(found.properties):
        raise UnsupportedTable(storage.url, reasons)
    return f"{storage.url} is the table {found.properties['hoodie.table.name']}"


def _secrets_of(resource: BucketIngest) -> str:
    keep_secrets_of(resource)
    kafka, format_ = resource.spec.source.kafka, resource.spec.format
    registry = None if format_ is None else format_.registry
    of_kafka = kafka is not None and kafka.has_secret_options
    return (
        "Secrets can be read"
        if of_kafka or (registry is not None and registry.secret_ref is not None)
        else "no Secret is named"
    )


@dataclass(frozen=True, slots=True)
class _Topics:
    """What was found at the brokers."""

    names: Mapping[str, Topic]
    said: str

    def __str__(self) -> str:
        return self.said


def _look_at_kafka(session: SparkSession, resource: BucketIngest) -> _Topics:
    from bucketingest.stream.topics.brokers import look_at_topics

    kafka = resource.spec.source.kafka
    assert kafka is not None, "only a Kafka source is looked at"
    found, said = look_at_topics(session, kafka, SOURCE_SECONDS)
    return _Topics(found, f"{said}, at {kafka.bootstrap_servers}")


def _look_at_transactions(session: SparkSession, resource: BucketIngest, topics: _Topics) -> str:
    from bucketingest.stream.topics.transactions import WholeTransactions

    tables, commit = dict(topics.names), resource.spec.commit
    if resource.spec.tables is not None:  # each is as that of a resource of its own
        tables.pop(commit.transaction_topic or "", None)
        several = [name for name, each in sorted(tables.items()) if len(each.partitions) > 1]
        if name := next(iter([*several, *sorted(tables)]), ""):
            resource, tables = table_resource(resource, name), {name: tables[name]}
    transactions = WholeTransactions.of(session, resource)
    if transactions is None:
        return "there is no topic yet"
    try:
        return transactions.look(sum(len(each.partitions) for each in tables.values()))
    finally:
        transactions.close()


def _look_at_files(resource: BucketIngest) -> str:
    from bucketingest.stream.files.source import look_at_files

    files = resource.spec.source.files
    assert files is not None, "only a source of files is looked at"
    return look_at_files(files)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What the resource says, with what Spark makes of its SQL."""

    pipeline: Pipeline
    schema: pa.Schema
    way: str
    """Where messages are decoded and SQL is evaluated; "" if there are no messages."""


def _compiled(session: SparkSession, resource: BucketIngest) -> _Compiled:
    from bucketingest.stream.files.source import open_files
    from bucketingest.stream.pipeline import Pipeline
    from bucketingest.stream.source.key_columns import with_record_key
    from bucketingest.stream.source.shape import RowShape
    from bucketingest.stream.source.sources import read_source
    from bucketingest.stream.spark.session import prepared

    with prepared(session):
        format_ = resource.spec.format
        client = None if format_ is None or format_.registry is None else registry_client(format_.registry)
        resource = with_record_key(resource, session, client, Patience(seconds=0))
        pipeline = Pipeline.of(resource)
        files = resource.spec.source.files
        rows = read_source(session, resource) if files is None else open_files(files).rows(session)
        shape = RowShape(resource, pipeline.delete_when).planned(rows)
        if shape.has_registry:
            shape.registered_blocks(rows)
        ways = [shape.reading(rows), shape.way()] if has_ways(resource) else []
        return _Compiled(pipeline, shape.schema(rows), ", ".join(str(each) for each in ways if each is not None))


def _by_versions(session: SparkSession, resource: BucketIngest) -> Iterator[Callable[[], _Compiled]]:
    """What each schema makes of the resource that a start would try, the newest first."""
    format_ = resource.spec.format
    if format_ is None or format_.registry is None:
        yield partial(_compiled, session, resource)
        return
    for each in readers_schemas(resource, registry_client(format_.registry), Patience(seconds=0)):
        yield partial(_compiled, session, each)


@dataclass(frozen=True, slots=True)
class _Taken(Generic[Found]):
    """What was taken first. `refused`: what was said of newer schemas; "" if there is none."""

    taken: Found
    refused: str

    @property
    def said(self) -> str:
        """In words."""
        return f"{self.taken}; a start takes an older schema: {self.refused}" if self.refused else str(self.taken)


def _first_taken(inputs: Iterator[Callable[[], _Compiled]], take: Callable[[_Compiled], Found]) -> _Taken[Found]:
    """As a start takes it. Raises what was said of the newest if none is taken."""
    from bucketingest.stream.growth import first_taken

    refused: list[str] = []

    def made(make: Callable[[], _Compiled]) -> Found:
        try:
            return take(make())
        except BucketIngestError as error:
            refused.append(str(error))
            raise

    found = first_taken((partial(_itself, each) for each in inputs), made)
    return _Taken(found, refused[0] if refused else "")


def _itself(make: Callable[[], _Compiled]) -> Callable[[], _Compiled]:
    return make


def _columns(found: _Taken[_Compiled]) -> str:
    compiled = found.taken
    columns = f"transform and deleteWhen give {len(compiled.schema)} columns"
    said = f"{columns}; {compiled.way}" if compiled.way else columns
    return _Taken(said, found.refused).said


def _fits(compiled: _Compiled) -> str:
    from bucketingest.write.open_table import check_table_fits

    pipeline, schema = compiled.pipeline, compiled.schema
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    drops, evolution = pipeline.drops_metadata_table, pipeline.evolution
    found = check_table_fits(storage, pipeline.definition, schema, evolution=evolution, drops_metadata_table=drops)
    if found is None:
        return "the columns can be those of a new table"
    changes = [f"new {', '.join(found.added)}"] if found.added else []
    changes += [f"wider {', '.join(found.widened)}"] if found.widened else []
    changes += ["all log files are merged first"] if found.needs_merge else []
    return (
        f"the table's columns change with the next start: {'; '.join(changes)}"
        if changes
        else "the columns fit the table"
    )
