"""Which columns identify a row if the resource does not say: those of the messages' keys, as Debezium has them from the
database.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from bucketingest.decode.avro.schema import UnreadableSchema, read_writer
from bucketingest.decode.json.doubts import UNREADABLE
from bucketingest.hudi.errors import TableNotFound
from bucketingest.hudi.table.table import load_table
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.lookups import Patience, waiting
from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.errors import KeyUnknown
from bucketingest.stream.source.sources import first_key

log = logging.getLogger(__name__)
_IMMUTABLE: Final = " (it is immutable: delete the BucketIngest and make it again with them; there is no table yet)"


def with_record_key(
    resource: BucketIngest, session: SparkSession, client: RegistryClient | None, patience: Patience
) -> BucketIngest:
    """The resource with its record key. Once there is a table its key is known, and no message is asked.

    Raises KeyUnknown, SpecError, RegistryError, and as Spark does if it cannot read a message.
    """
    resource = with_key_of_table(resource)
    if resource.record_key:
        return resource
    key, where = _of_registry(resource, client, patience), "the schema registry"
    if not key:
        key, where = _of_message(resource, session), "a message"
    log.info("the record key is that of the messages", extra={"columns": list(key), "seen_in": where})
    return _with(resource, key)


def with_key_of_table(resource: BucketIngest) -> BucketIngest:
    """The resource with the record key of the table, if it has none of its own and there is a table."""
    if resource.record_key:
        return resource
    try:
        text = load_table(open_storage(resource.spec.table.path)).properties.get("hoodie.table.recordkey.fields", "")
    except TableNotFound:
        return resource
    return _with(resource, tuple(filter(None, text.split(","))))


def _with(resource: BucketIngest, key: tuple[str, ...]) -> BucketIngest:
    table = resource.spec.table.model_copy(update={"record_key": key or None})
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"table": table})})


def key_names(key: bytes) -> tuple[str, ...]:
    """The columns of a message's key in JSON, with or without a schema; none if it is no object."""
    try:
        found = msgspec.json.decode(key)
    except UNREADABLE:
        return ()
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    return tuple(found) if isinstance(found, dict) else ()


def _of_registry(resource: BucketIngest, client: RegistryClient | None, patience: Patience) -> tuple[str, ...]:
    kafka = resource.spec.source.kafka
    if client is None or kafka is None or kafka.topics is None or len(kafka.topics) != 1:
        return ()
    subject = f"{kafka.topics[0]}-key"
    found = waiting(lambda: client.version(subject), patience)
    if found is None or found.schema.kind != "AVRO":
        return ()
    try:
        return tuple(field["name"] for field in read_writer(found.schema.text)["fields"])
    except UnreadableSchema:
        return ()


def _of_message(resource: BucketIngest, session: SparkSession) -> tuple[str, ...]:
    kafka = resource.spec.source.kafka
    assert kafka is not None, "only messages have an envelope"
    key = first_key(session, kafka)
    if key is None:
        raise KeyUnknown(
            "spec.table.recordKey is absent, and no message of the topic has a key: wait for the first one, or "
            f"name the columns there{_IMMUTABLE}. A table without a primary key has none: it cannot be mirrored"
        )
    if not (names := key_names(key)):
        wrong = "is absent, and the key of a message is no JSON object"
        allowed = (
            f"the key's columns{_IMMUTABLE}; or Debezium's key.converter org.apache.kafka.connect.json.JsonConverter"
        )
        raise SpecError([Problem("spec.table.recordKey", wrong, allowed)])
    return names
