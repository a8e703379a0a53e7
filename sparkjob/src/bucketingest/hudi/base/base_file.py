"""Writes one base file as Hudi's readers expect it: Parquet, meta columns first, in the footer the range of keys, and
on request the bloom filter without which Hudi's BLOOM index fails.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.avro.stored_form import stored_form
from bucketingest.hudi.base.bloom_filter import FOOTER_KEY, BloomFilter
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.hudi.table.schema_evolution import widened

_KEY, _FILE_NAME = META_COLUMNS[2], META_COLUMNS[4]
REPEATED: Final = (META_COLUMNS[0], META_COLUMNS[3])
"""Columns with few values, which are cheaper to read and write as dictionaries; the file name is one, too."""
_TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
_MIN_KEY, _MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"
"""Footer keys of Hudi 1.2.0 (HoodieBloomFilterWriteSupport): readers check ranges of keys with them."""
_SAMPLE_ROWS: Final = 8192


class BaseFileWriter:
    """A Parquet file on local disk that grows by tables of its schema. Use it as a context."""

    def __init__(
        self,
        path: pathlib.Path,
        schema: pa.Schema,
        file_name: str,
        *,
        row_group_rows: int,
        row_group_bytes: int = 128 * 1024**2,
        filtered_keys: int | None = None,
    ) -> None:
        """`schema`: all columns, meta columns first. `file_name`: the base file's, which every row names.

        A row group ends with the rows that bring it to `row_group_rows` or `row_group_bytes` of Arrow's form.
        `filtered_keys`: how many keys the footer's bloom filter is made for; None: it has none.
        """
        self.rows = 0
        self._path = path
        self._schema = pa.schema(
            [field.with_type(_TEXTS) if field.name in (*REPEATED, _FILE_NAME) else field for field in schema]
        )
        self._file_name = pa.array([file_name])
        self._row_group_rows = row_group_rows
        self._row_group_bytes = row_group_bytes
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._key_range: tuple[str, str] | None = None
        self._ascii_keys = True
        self._filter = None if filtered_keys is None else BloomFilter.for_file(filtered_keys)
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.Table) -> None:
        """Add rows with the columns of any schema that the file's schema has evolved from.

        Absent columns become null. Raises ArrowInvalid if a value does not fit its column.
        """
        if not rows.num_rows:
            return
        self._pending.append(self._conformed(rows))
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= self._row_group_rows or self._pending_bytes >= self._row_group_bytes:
            self._flush()

    def flush(self) -> None:
        """Write what is left; a file without rows gets its schema."""
        if self._pending or not self.rows:
            self._flush()

    def finish(self, footer: Mapping[str, str]) -> None:
        """Write what is left, and the footer's keys and values."""
        if self._pending or self._writer is None:
            self._flush()
        assert self._writer is not None
        # Java compares UTF-16, which orders other keys differently; without a range Hudi looks into the file.
        named = self._key_range is not None and self._ascii_keys
        keys = dict(zip((_MIN_KEY, _MAX_KEY), self._key_range or (), strict=True)) if named else {}
        if self._filter is not None:
            keys[FOOTER_KEY] = self._filter.text()
        self._writer.add_key_value_metadata({**keys, **footer})

    def _flush(self) -> None:
        table = pa.concat_tables(self._pending) if self._pending else self._schema.empty_table()
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0
        self.rows += table.num_rows
        if table.num_rows:
            bounds = pc.min_max(table[_KEY]).as_py()
            least, greatest = self._key_range or (bounds["min"], bounds["max"])
            self._key_range = min(least, bounds["min"]), max(greatest, bounds["max"])
            self._ascii_keys = self._ascii_keys and pc.all(pc.string_is_ascii(table[_KEY])).as_py()
            if self._filter is not None:
                for chunk in table[_KEY].chunks:
                    self._filter.add(chunk)
        table = stored_form(table.unify_dictionaries())
        self._writer = self._writer or self._open(table)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._path,
            first.schema,
            version="2.6",
            data_page_version="1.0",
            compression="zstd",
            compression_level=1,
            use_dictionary=_repeating(first),
            write_page_checksum=True,
            store_schema=False,
        )

    def _conformed(self, rows: pa.Table) -> pa.Table:
        columns = []
        for wanted in self._schema:
            if wanted.name == _FILE_NAME:
                indices = pa.array(np.zeros(rows.num_rows, np.int32))
                column = pa.DictionaryArray.from_arrays(indices, self._file_name)
            elif wanted.name in rows.column_names:
                column = rows[wanted.name]
                if column.type != wanted.type:
                    column = column.dictionary_encode() if wanted.type == _TEXTS else widened(column, wanted.type)
            else:
                column = pa.nulls(rows.num_rows, wanted.type)
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=self._schema)


def _repeating(rows: pa.Table) -> list[str]:
    """Columns whose values repeat so often that a dictionary makes them smaller; for others it only costs time."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    return [field.name for field in sample.schema if _repeats(sample[field.name])]


def _repeats(values: pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(values.type):
        return True
    return not pa.types.is_nested(values.type) and len(values.unique()) <= max(len(values) // 2, 1)


def empty_base_file(schema: pa.Schema, file_name: str) -> bytes:
    """A base file without rows. `schema`: all columns, meta columns first."""
    with tempfile.TemporaryDirectory(prefix="bucketingest-") as folder:
        path = pathlib.Path(folder, "empty.parquet")
        with BaseFileWriter(path, schema, file_name, row_group_rows=1, filtered_keys=0) as out:
            out.finish({})
        return path.read_bytes()
