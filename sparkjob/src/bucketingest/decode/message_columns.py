"""The columns that messages of a format have, known from the spec's text alone: nothing is asked or started."""

from __future__ import annotations

import pyarrow as pa

from bucketingest.decode.avro.column_types import columns_of as columns_of_record
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_record
from bucketingest.decode.ddl import UnreadableDdl
from bucketingest.decode.ddl import columns_of as columns_of_ddl
from bucketingest.decode.debezium.avro_schemas import readings_of, row_of
from bucketingest.decode.debezium.events import DELETED
from bucketingest.decode.json.rest import REST
from bucketingest.decode.protobuf.columns import columns_of as columns_of_message
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.schema import UnreadableDescriptors
from bucketingest.spec.formats.format import Format


class UnusableColumns(Exception):
    """Messages of the format have no columns. The text follows "spec.format.schema"."""


def columns_of(format_: Format) -> pa.Schema:
    """The columns, all of them nullable. Raises UnusableColumns."""
    text = format_.columns_text
    try:
        if format_.envelope is None and format_.is_in_avros_terms:
            return columns_of_record(read_reader(text))
        match format_.type:
            case "json":
                columns = columns_of_ddl(text)
                if format_.unknown_fields == "column":
                    return _with_rest(columns)
                return columns if format_.envelope is None else with_deleted(columns)
            case "avro" if format_.envelope is not None:
                return with_deleted(readings_of(row_of(text))[0])
            case "avro":
                return columns_of_record(read_record(text))
            case "protobuf":
                return columns_of_message(read_message(text, format_.message_name))
    except (UnreadableDdl, UnreadableSchema, UnreadableDescriptors) as error:
        raise UnusableColumns(str(error)) from error


def _with_rest(columns: pa.Schema) -> pa.Schema:
    if REST in map(str.lower, columns.names):
        raise UnreadableDdl(f"has {REST}, which format.unknownFields makes")
    return columns.append(pa.field(REST, pa.string()))


def with_deleted(columns: pa.Schema) -> pa.Schema:
    """The columns of an envelope's rows. Raises UnreadableDdl."""
    if DELETED in columns.names:
        raise UnreadableDdl(f"has {DELETED}, which format.envelope makes")
    return columns.append(pa.field(DELETED, pa.bool_()))


def why_refused(format_: Format | None) -> str | None:
    """Why messages cannot be decoded, in words that follow "spec.format.schema"; None if they can, or the registry has
    the schema.
    """
    if format_ is None or format_.schema_text is None:
        return None
    try:
        columns_of(format_)
    except UnusableColumns as error:
        return str(error)
    return None
