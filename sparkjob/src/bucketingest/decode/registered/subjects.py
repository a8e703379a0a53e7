"""From what the registry says to schemas that are decoded: those of messages, and the one of the table's columns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from bucketingest.decode.avro.growth import lenient
from bucketingest.decode.avro.references import UnjoinableSchema, self_contained
from bucketingest.decode.debezium.avro_schemas import row_of, why_unwanted
from bucketingest.decode.message_columns import why_refused
from bucketingest.decode.protobuf.compiled import Uncompilable, compiled, message_names
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.registry.client import RegisteredSchema, RegistryClient, SubjectVersion
from bucketingest.registry.credentials import registry_credentials
from bucketingest.registry.errors import SubjectMissing, UnusableSchema
from bucketingest.registry.lookups import KEPT_MAX, Patience, waiting
from bucketingest.spec.formats.format import Format, Registry
from bucketingest.spec.model import BucketIngest

log = logging.getLogger(__name__)

VERSIONS_MAX: Final = 10
"""Versions of a subject, the newest first, that a start looks at."""


def registry_client(registry: Registry) -> RegistryClient:
    """Asks the registry of a resource. Raises SpecError if its Secret cannot be used."""
    registry_credentials(registry)
    return RegistryClient(registry.url, lambda: registry_credentials(registry))


def readers_schemas(resource: BucketIngest, client: RegistryClient, patience: Patience) -> Iterator[BucketIngest]:
    """The resource with the schema of its columns: the newest of the subject, then older ones, which a table may take
    that cannot take the newest. Just the resource if it has a schema.

    Raises RegistryError, and UnusableSchema if no version can be the columns.
    """
    if not _asks_for_columns(resource):
        yield resource
        return
    refused: UnusableSchema | None = None
    is_usable = False
    newest = _version(resource, client, patience)
    for number in range(newest.number, max(newest.number - VERSIONS_MAX, 0), -1):
        found = newest if number == newest.number else _older(resource, client, patience, number)
        try:
            usable = None if found is None else _of_version(resource, client, found)
        except UnusableSchema as error:
            log.warning("a version of the subject cannot be the columns", extra={"reason": str(error)})
            refused = refused or error
            continue
        if usable is not None:  # else it was deleted
            is_usable = True
            yield usable
    if refused is not None and not is_usable:
        raise refused


def with_readers_schema(resource: BucketIngest, client: RegistryClient, patience: Patience) -> BucketIngest:
    """The first of these, or why it cannot be the columns. Raises RegistryError."""
    if not _asks_for_columns(resource):
        return resource
    return _of_version(resource, client, _version(resource, client, patience))


def _asks_for_columns(resource: BucketIngest) -> bool:
    format_ = resource.spec.format
    return format_ is not None and format_.registry is not None and format_.schema_text is None


def _subject(resource: BucketIngest) -> str:
    assert resource.spec.format is not None
    assert resource.spec.format.registry is not None, "there is a registry"
    kafka = resource.spec.source.kafka
    topics = () if kafka is None or kafka.topics is None else kafka.topics
    subject = resource.spec.format.registry.subject_of(topics[0] if len(topics) == 1 else None)
    assert subject is not None, "the spec's rules ask for a subject"
    return subject


def _version(resource: BucketIngest, client: RegistryClient, patience: Patience) -> SubjectVersion:
    subject = _subject(resource)
    latest = waiting(lambda: client.version(subject), patience)
    if latest is None:
        raise SubjectMissing(
            f"the schema registry {client.url} has no subject {subject}: its first producer registers it; or name "
            "another in spec.format.registry.subject"
        )
    return latest


def _older(resource: BucketIngest, client: RegistryClient, patience: Patience, number: int) -> SubjectVersion | None:
    subject = _subject(resource)
    return waiting(lambda: client.version(subject, number), patience)


def _of_version(resource: BucketIngest, client: RegistryClient, version: SubjectVersion) -> BucketIngest:
    format_, found = resource.spec.format, version.schema
    assert format_ is not None, "its schema is asked for"
    what = f"spec.format.registry: schema {version.schema_id} of the subject {_subject(resource)}"
    writer = writer_schema(found, format_.type.upper())
    if writer.why_not:
        raise UnusableSchema(f"{what} {writer.why_not}")
    if format_.envelope is not None and (why := why_unwanted(writer.text, flat=format_.envelope.flat)) is not None:
        raise UnusableSchema(f"{what} has {why}")
    fixed = _fixed(format_, found, writer)
    if (why := why_refused(fixed)) is not None:
        raise UnusableSchema(
            f"{what} {why}: it cannot be a column. Give spec.format.schema with the fields that are to be columns"
        )
    if fixed.type == "avro":
        fixed = fixed.model_copy(update={"schema_text": lenient(fixed.columns_text)})
    said = {"at": client.url, "subject": _subject(resource), "id": version.schema_id}
    log.info("the table's schema is a version of the subject", extra=said)
    return _with_format(resource, fixed)


def with_columns(resource: BucketIngest, schema_text: str) -> BucketIngest:
    """The resource with another schema of its columns."""
    assert resource.spec.format is not None, "only messages have a schema"
    return _with_format(resource, resource.spec.format.model_copy(update={"schema_text": schema_text}))


def _with_format(resource: BucketIngest, format_: Format) -> BucketIngest:
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"format": format_})})


@lru_cache(KEPT_MAX)
def writer_schema(found: RegisteredSchema | None, kind: str) -> WriterSchema:
    """What messages of an id are; None: the registry lacks the id. `kind`: what its schema must be."""
    if found is None:
        return WriterSchema(why_not="is not in the registry")
    if found.kind != kind:
        return WriterSchema(why_not=f"is {found.kind}, not {kind}")
    if kind == "JSON":  # the columns say what counts of a message
        return WriterSchema()
    try:
        if kind == "PROTOBUF":
            return WriterSchema(message_names(_descriptors(found)))
        return WriterSchema(self_contained(found.text, found.references))
    except (UnjoinableSchema, Uncompilable) as error:
        return WriterSchema(why_not=f"cannot be read: {error}")


def _descriptors(found: RegisteredSchema) -> str:
    return compiled(found.text, dict(zip(found.names, found.references, strict=True)))


def _fixed(format_: Format, found: RegisteredSchema, writer: WriterSchema) -> Format:
    """The format with a schema."""
    if format_.type != "protobuf":
        text = writer.text if format_.envelope is None else row_of(writer.text)
        return format_.model_copy(update={"schema_text": text})
    names = json.loads(writer.text)
    name = format_.message_name or names.get("0")
    return format_.model_copy(update={"schema_text": _descriptors(found), "message_name": name})
