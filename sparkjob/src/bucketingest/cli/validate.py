"""`bucketingest validate`: reads BucketIngest files as `run` does, asks the schema registry, and stops there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import typer

from bucketingest.cli.connect.offline import offline_problems
from bucketingest.cli.options import UnknownFields, load_known
from bucketingest.decode.decoder_choice import has_ways, way_of
from bucketingest.decode.kafka.reading_choice import reading_of
from bucketingest.decode.message_columns import why_refused
from bucketingest.decode.registered.subjects import registry_client, with_readers_schema
from bucketingest.exit_codes import ExitCode
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.errors import RegistryError, UnusableSchema
from bucketingest.registry.lookups import Patience
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.spec.errors import SpecError, format_problem
from bucketingest.spec.many_tables import table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.quantity import format_duration

_SHORT: Final = timedelta(seconds=5)
_REQUESTS: Final = 35
"""Of a commit of one micro-batch, with one or two data files."""
_LONG_TIMELINE: Final = 5_000
"""Commits. To list so many takes a commit a tenth of a second of processor time."""


def validate_files(files: Sequence[Path], unknown_fields: UnknownFields = UnknownFields.REFUSE) -> None:
    """Print what each file describes, or every problem in it; exit code BAD_INPUT if any has one, else that of what the
    registry did not answer.
    """
    wrong = False
    unanswered: RegistryError | None = None
    for file in files:
        try:
            resource, note = _asked(load_known(file, unknown_fields))
            if problems := offline_problems(resource):
                raise SpecError(problems, str(file))
        except RegistryError as error:
            unanswered = error
            typer.echo(f"error: {file}: {error}", err=True)
        except SpecError as error:
            wrong = True
            for problem in error.problems:
                typer.echo(f"error: {format_problem(error.source, problem)}", err=True)
        else:
            typer.echo(f"{file}: valid: {summary(resource, note)}")
    if wrong:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if unanswered is not None:
        raise typer.Exit(unanswered.exit_code)


def summary(resource: BucketIngest, note: str = "") -> str:
    """What the resource describes, in one line."""
    if resource.spec.tables is not None:
        return f"a table for each topic, such as of TOPIC: {summary(table_resource(resource, 'TOPIC'), note)}"
    table = resource.spec.table
    index = table.index
    rules = "".join(f", {each.pattern} {each.buckets}" for each in index.partition_buckets or ())
    places = f"{index.buckets} buckets{rules}" if index.type == "bucket" else "index with a state"
    decoding = f"{_reading(resource)}, {way_of(resource)}{note}" if has_ways(resource) else ""
    return (
        f"pipeline {resource.pipeline}, table {table.path}, {places}{decoding}{_interval(resource)}{_promise(resource)}"
    )


def _interval(resource: BucketIngest) -> str:
    """What a short commit interval costs."""
    commit, services = resource.spec.commit, resource.spec.services
    if commit.mode != "interval" or commit.interval > _SHORT:
        return ""
    a_day = timedelta(days=1) // commit.interval
    told = (
        f", a commit every {format_duration(commit.interval)}: up to {a_day:,} a day, each with about {_REQUESTS} "
        f"requests to the storage ({_REQUESTS * a_day:,})"
    )
    stays = max(services.archive.retain, services.clean.chosen_retain or timedelta())
    if services.run and (listed := stays // commit.interval) > _LONG_TIMELINE:
        told += (
            f"; commits stay on the timeline for {format_duration(stays)}, which is {listed:,} of them, and each "
            "commit lists them all: set services.clean.versions, and a shorter services.archive.retain"
        )
    return told


def _promise(resource: BucketIngest) -> str:
    """What a promise to readers of base files costs."""
    promise = resource.spec.slo.read_optimized_freshness
    if promise is None:
        return ""
    age = CompactionTriggers.of(resource.spec.services, resource.spec.slo).log_age
    return (
        f", base files at most {format_duration(promise)} behind: the job writes the base file of each file group with "
        f"new rows again every {format_duration(age)}"
    )


def _reading(resource: BucketIngest) -> str:
    """Who reads Kafka, if messages are decoded on Arrow."""
    if way_of(resource).name == "spark":
        return ""
    try:
        reading = reading_of(resource, resource.spec.spark.conf)
    except SpecError:  # the Secret is in the cluster
        return ", reading Kafka: options in Secrets decide"
    return "" if reading is None else f", {reading}"


def _asked(resource: BucketIngest) -> tuple[BucketIngest, str]:
    """The resource with the schema of its columns, and what the registry said of it. Raises RegistryError."""
    format_ = resource.spec.format
    if format_ is None or format_.registry is None:
        return resource, ""
    if resource.spec.tables is not None:
        return resource, "; the registry is asked for each topic when its table is opened"
    try:
        client = registry_client(format_.registry)
    except SpecError as error:  # the Secret is in the cluster
        return resource, "; the registry is not asked: " + "; ".join(each.wrong for each in error.problems)
    return ask_registry(resource, client), "; the registry answers"


def ask_registry(resource: BucketIngest, client: RegistryClient) -> BucketIngest:
    """The resource with the schema of its columns. Raises RegistryError, also if messages cannot be decoded with it."""
    if resource.spec.format is None or resource.spec.format.schema_text is None:
        resource = with_readers_schema(resource, client, Patience(seconds=0))
    else:
        client.check()
    if resource.spec.format is not None and (why := why_refused(resource.spec.format)) is not None:
        raise UnusableSchema(f"spec.format.schema {why}")
    return resource
