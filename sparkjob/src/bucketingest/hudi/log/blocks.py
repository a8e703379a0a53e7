"""The blocks of a log file as this project writes them: Parquet rows, Avro rows, deletes, rollback commands.

Every block has the two headers of Hudi 1.2.0's own blocks, SCHEMA and INSTANT_TIME (seen in log files it wrote). Each
function returns the block as a list of buffers to write one after the other; large ones are not copied.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.avro.encoding import encode_rows
from bucketingest.hudi.avro.rows import binary_data
from bucketingest.hudi.avro.stored_form import stored_form
from bucketingest.hudi.log.deletes import delete_contents
from bucketingest.hudi.log.format import BlockType, Buffer, HeaderKey, frame_block
from bucketingest.hudi.table.schema import META_COLUMNS

_AVRO_BLOCK_VERSION: Final = 3
_AVRO_BYTES_MAX: Final = 64 * 1024
"""Hudi's Spark reader opens an Avro block of less Arrow data than this three times as fast: a Parquet block takes it
20 ms before the first row.
"""
_SNAPPY_BYTES_MAX: Final = 1024**2
"""Less Arrow data than this is packed by snappy, in 0.25 to 0.8 ms of a core instead of 0.5 to 1.2 (500 to 4,000 rows
of 16 columns), and takes half as many bytes again: zstd's beginning of each page costs more than the rest of it.
"""


def data_block_by_size(table: pa.Table, *, instant_time: str, avro_schema_json: str) -> list[Buffer]:
    """The block that readers read fastest: Avro for few rows, else Parquet. Arguments as for `parquet_data_block`."""
    block = avro_data_block if table.nbytes < _AVRO_BYTES_MAX else parquet_data_block
    return block(table, instant_time=instant_time, avro_schema_json=avro_schema_json)


def parquet_data_block(
    table: pa.Table,
    *,
    instant_time: str,
    avro_schema_json: str,
    compression: str | None = None,
    level: int | None = None,
) -> list[Buffer]:
    """A PARQUET block: the rows of ``table`` as the bytes of one Parquet file with one row group.

    ``table`` has the five meta columns first; dictionary-encoded columns are stored as plain strings with a Parquet
    dictionary. ``avro_schema_json`` is the record schema with meta columns. ``compression``: None chooses by size.
    ``level`` is the codec's own; None is its default, and required for codecs without levels (snappy, none).
    """
    _check_meta_columns(table.schema)
    content = parquet_bytes(table, compression=compression, level=level)
    return frame_block(BlockType.PARQUET, _data_headers(instant_time, avro_schema_json), [content])


def parquet_bytes(table: pa.Table, *, compression: str | None = None, level: int | None = None) -> pa.Buffer:
    """The rows as a whole Parquet file that parquet-mr (Spark 3.5) and parquet-rs (hudi-rs) read.

    Raises `SchemaError` if a column that is not nullable holds nulls.
    """
    if compression is None:
        compression, level = ("snappy", None) if table.nbytes < _SNAPPY_BYTES_MAX else ("zstd", 1)
    table = stored_form(table)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        version="2.6",
        data_page_version="1.0",
        write_batch_size=8192,
        compression=compression,
        compression_level=level,
        use_dictionary=[field.name for field in table.schema if pa.types.is_dictionary(field.type)],
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    return sink.getvalue()


def avro_data_block(table: pa.Table, *, instant_time: str, avro_schema_json: str) -> list[Buffer]:
    """An AVRO_DATA block: the rows of ``table`` as Avro datums, each with its length in front.

    Arguments as for `parquet_data_block`; exactly the columns that ``avro_schema_json`` has as a union must be nullable
    in ``table``, as `arrow_to_avro` of the table's own schema makes it.
    """
    _check_meta_columns(table.schema)
    head = struct.pack(">ii", _AVRO_BLOCK_VERSION, table.num_rows)
    content = [head, *(binary_data(rows) for rows in encode_rows(table, framed=True))]
    return frame_block(BlockType.AVRO_DATA, _data_headers(instant_time, avro_schema_json), content)


def delete_block(
    record_keys: pa.Array,
    partition_path: str,
    ordering: pa.Array | None,
    *,
    instant_time: str,
    avro_schema_json: str,
) -> list[Buffer]:
    """A DELETE block: these keys of one partition are deleted, unless a row has a higher ordering value.

    ``record_keys`` are strings without null. ``ordering`` holds the deletes' values of the table's ordering column, in
    that column's own type. None, a null, and the int or date 0 delete every earlier row, by commit time.

    If some ordering values are null and others are not, there are two blocks, one after the other.

    Raises `SchemaError` for ordering columns of a type that Hudi's delete records cannot hold.
    """
    headers = _data_headers(instant_time, avro_schema_json)
    contents = delete_contents(record_keys, partition_path, ordering)
    return [part for content in contents for part in frame_block(BlockType.DELETE, headers, content)]


def _data_headers(instant_time: str, avro_schema_json: str) -> dict[HeaderKey, str]:
    return {HeaderKey.SCHEMA: avro_schema_json, HeaderKey.INSTANT_TIME: instant_time}


def _check_meta_columns(schema: pa.Schema) -> None:
    if tuple(schema.names[: len(META_COLUMNS)]) != META_COLUMNS:
        raise ValueError(f"a data block's first columns are {', '.join(META_COLUMNS)}; got {', '.join(schema.names)}")
