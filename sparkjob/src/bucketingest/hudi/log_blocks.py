"""The blocks of a log file as this project writes them: Parquet rows, Avro rows, deletes, rollback commands.

Every block carries the two headers that Hudi 1.2.0's own blocks have, SCHEMA and INSTANT_TIME (seen in log files it
wrote). Each function returns the block as a list of buffers to be written one after the other; large ones are not
copied.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.log_format import BlockType, Buffer, HeaderKey, frame_block
from bucketingest.hudi.schema import META_COLUMNS, storage_schema

_ROLLBACK_COMMAND: Final = "3"
"""Seen as COMMAND_BLOCK_TYPE in a table of version 6; Hudi's enum has only this command."""


def parquet_data_block(
    table: pa.Table, *, instant_time: str, avro_schema_json: str, compression: str = "zstd", level: int | None = 1
) -> list[Buffer]:
    """A PARQUET block: the rows of ``table`` as the bytes of one Parquet file with one row group.

    ``table`` has the five meta columns first; dictionary-encoded columns are stored as plain strings with a Parquet
    dictionary. ``avro_schema_json`` is the record schema with meta columns. ``level`` is the codec's own; None takes
    its default, and must be for codecs without levels (snappy, none).
    """
    _check_meta_columns(table.schema)
    content = parquet_bytes(table, compression=compression, level=level)
    return frame_block(BlockType.PARQUET, _data_headers(instant_time, avro_schema_json), [content])


def parquet_bytes(table: pa.Table, *, compression: str = "zstd", level: int | None = 1) -> pa.Buffer:
    """The rows as a whole Parquet file that parquet-mr (Spark 3.5) and parquet-rs (hudi-rs) read."""
    stored = storage_schema(table.schema)
    if not stored.equals(table.schema, check_metadata=True):
        table = table.cast(stored)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        stored,
        version="2.6",
        data_page_version="1.0",
        compression=compression,
        compression_level=level,
        use_dictionary=[field.name for field in stored if pa.types.is_dictionary(field.type)],
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    return sink.getvalue()


def rollback_command_block(*, instant_time: str, target_instant_time: str) -> list[Buffer]:
    """A COMMAND block that makes readers skip the blocks of ``target_instant_time`` in the same log file.

    Tables of version 6 need it; later versions delete the files instead (Hudi 1.2.0).
    """
    headers = {
        HeaderKey.INSTANT_TIME: instant_time,
        HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
        HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK_COMMAND,
    }
    return frame_block(BlockType.COMMAND, headers, [])


def _data_headers(instant_time: str, avro_schema_json: str) -> dict[HeaderKey, str]:
    return {HeaderKey.SCHEMA: avro_schema_json, HeaderKey.INSTANT_TIME: instant_time}


def _check_meta_columns(schema: pa.Schema) -> None:
    if tuple(schema.names[: len(META_COLUMNS)]) != META_COLUMNS:
        raise ValueError(f"a data block's first columns are {', '.join(META_COLUMNS)}; got {', '.join(schema.names)}")
