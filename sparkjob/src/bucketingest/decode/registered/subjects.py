"""From what the registry says to schemas that are decoded: those of messages, and the one of the table's columns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from bucketingest.decode.avro.growth import lenient
from bucketingest.decode.avro.references import UnjoinableSchema, self_contained
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.debezium.avro_schemas import row_of, why_unwanted
from bucketingest.decode.json.as_avro import columns_text as columns_of_json
from bucketingest.decode.json.as_avro import with_references
from bucketingest.decode.message_columns import why_refused
from bucketingest.decode.protobuf.compiled import Uncompilable, compiled, message_names
from bucketingest.decode.protobuf.registered import columns_text as columns_of_message
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.registry.client import RegisteredSchema, RegistryClient, SubjectVersion
from bucketingest.registry.credentials import registry_credentials
from bucketingest.registry.errors import SubjectMissing, UnusableSchema
from bucketingest.registry.lookups import KEPT_MAX, Patience, waiting
from bucketingest.spec.formats.format import Format, Registry
from bucketingest.spec.model import BucketIngest

log = logging.getLogger(__name__)

VERSIONS_MAX: Final = 10
"""Versions of a subject, the newest first, that a start looks at one by one. Of older ones it looks at ever fewer, and
at the first, which made the table: then messages say what else are columns.
"""


def registry_client(registry: Registry) -> RegistryClient:
    """Asks the registry of a resource. Raises SpecError if its Secret cannot be used."""
    registry_credentials(registry)
    return RegistryClient(registry.url, lambda: registry_credentials(registry))


def readers_schemas(
    resource: BucketIngest, client: RegistryClient, patience: Patience, kept: str = ""
) -> Iterator[BucketIngest]:
    """The resource with the schema of its columns: the one that is kept, for which no registry is asked; then the
    newest of the subject, and older ones, which a table may take that cannot take the newest. Just the resource if it
    has a schema. `kept`: what `to_keep` said of an earlier start, "" if there was none.

    Raises RegistryError, and UnusableSchema if no version can be the columns.
    """
    if not _asks_for_columns(resource):
        yield resource
        return
    if (goes_on := _with_kept(resource, kept)) is not None:
        yield goes_on
    refused: UnusableSchema | None = None
    is_usable = False
    newest = _version(resource, client, patience)
    for number in _looked_at(newest.number):
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


def to_keep(resource: BucketIngest) -> str:
    """Of a resource with the schema of its columns, for the next start: else it would lack columns of old producers, or
    read their messages by other names and types than before.
    """
    format_ = resource.spec.format
    assert format_ is not None, "its columns are those of messages"
    return json.dumps([_kind_of(resource), format_.message_name, format_.schema_text])


def _with_kept(resource: BucketIngest, kept: str) -> BucketIngest | None:
    """None if nothing is kept, or the spec means other messages now."""
    kind, name, text = json.loads(kept) if kept else (None, None, None)
    format_ = resource.spec.format
    assert format_ is not None, "its schema is asked for"
    if kind != _kind_of(resource) or format_.message_name not in {None, name}:
        return None
    log.info("the table's schema is that of its last commit")
    return _with_format(resource, format_.model_copy(update={"schema_text": text, "message_name": name}))


def _kind_of(resource: BucketIngest) -> list[str | None]:
    format_ = resource.spec.format
    assert format_ is not None, "its columns are those of messages"
    return [format_.type, _subject(resource), None if format_.envelope is None else format_.envelope.type]


def with_readers_schema(resource: BucketIngest, client: RegistryClient, patience: Patience) -> BucketIngest:
    """The first of these. Raises RegistryError."""
    return next(readers_schemas(resource, client, patience))


def _looked_at(newest: int) -> list[int]:
    """Numbers of versions, from the newest on."""
    distances = [*range(VERSIONS_MAX), *(VERSIONS_MAX << step for step in range(newest.bit_length()))]
    return list(dict.fromkeys(max(newest - each, 1) for each in distances))


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
    try:
        fixed, why = _fixed(format_, writer), None
    except UnreadableSchema as error:
        fixed, why = format_, str(error)
    if (why := why or why_refused(fixed)) is not None:
        raise UnusableSchema(
            f"{what} {why}: it cannot be a column. Give spec.format.schema with the fields that are to be columns"
        )
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
    try:
        return WriterSchema(_text_of(found, kind))
    except (UnjoinableSchema, Uncompilable) as error:
        return WriterSchema(why_not=f"cannot be read: {error}")


def _text_of(found: RegisteredSchema, kind: str) -> str:
    """With those that it refers to, as the decoder of the kind takes it."""
    named = dict(zip(found.names, found.references, strict=False))
    match kind:
        case "JSON":
            return with_references(found.text, named)
        case "PROTOBUF":
            return compiled(found.text, named)
    return self_contained(found.text, found.references)


def _fixed(format_: Format, writer: WriterSchema) -> Format:
    """The format with the schema of its columns, in Avro's terms. Raises UnreadableSchema."""
    if format_.type == "json":
        return format_.model_copy(update={"schema_text": lenient(columns_of_json(writer.text))})
    if format_.type == "protobuf":
        name = format_.message_name or message_names(writer.text).get("0", "")
        text = lenient(columns_of_message(writer.text, name))
        return format_.model_copy(update={"schema_text": text, "message_name": name})
    text = writer.text if format_.envelope is None else row_of(writer.text)
    return format_.model_copy(update={"schema_text": lenient(text)})
