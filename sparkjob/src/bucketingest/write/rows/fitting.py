"""Gives rows the columns of the table before anything is written. What does not fit is refused; no value is dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bucketingest.hudi.errors import SchemaError
from bucketingest.write.plan import DELETE_COLUMN


def fitted(rows: pa.Table, schema: pa.Schema, deleted: str | None) -> pa.Table:
    """The rows with these columns, null where they lack one. `deleted`: the column that says which rows are deletes.

    Raises SchemaError. Arrow's cast takes a struct of more members than it should have, and drops those.
    """
    if len(set(rows.column_names)) < rows.num_columns:
        raise SchemaError(f"the rows have two columns with one name: {', '.join(rows.column_names)}")
    if unknown := sorted(set(_members(pa.struct(rows.schema))) - set(_members(pa.struct(schema)))):
        raise SchemaError(
            f"the rows have {', '.join(unknown)}, which the writer does not know: "
            "open it with a schema that has them, or leave them out of the rows"
        )
    sources = {name: name for name in schema.names} | {DELETE_COLUMN: deleted}
    columns = []
    for field in schema:
        source = sources[field.name]
        if source in rows.column_names:
            columns.append(_cast(rows[source], field))
        elif field.name == DELETE_COLUMN:
            columns.append(pa.repeat(pa.scalar(value=False), rows.num_rows))
        elif field.nullable:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            raise SchemaError(f"the rows have no column {field.name}, which must have a value")
    return pa.table(columns, schema=schema)


def _members(kind: pa.DataType, path: str = "") -> Iterator[str]:
    """The dotted paths of all members of a type."""
    if pa.types.is_map(kind):  # Arrow takes any names for its parts
        yield from _members(kind.key_type, f"{path}.key")
        yield from _members(kind.item_type, f"{path}.value")
        return
    for field in (kind.field(number) for number in range(kind.num_fields)):
        name = path if not pa.types.is_struct(kind) else f"{path}.{field.name}" if path else field.name
        yield name
        yield from _members(field.type, name)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not field.nullable and column.null_count:
        raise SchemaError(f"column {field.name} must have a value, and {column.null_count} rows have none")
    try:
        fitting = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"column {field.name}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(f"column {field.name} is {column.type}, and the table has {field.type}") from error
    # Arrow casts a null to an element that must not be one.
    if pa.types.is_nested(field.type):
        for chunk in fitting.chunks:
            if missing := next(_missing(chunk, field, field.name), None):
                raise SchemaError(f"column {field.name}: {missing} must have a value, and a row has none")
    return fitting


def _missing(values: pa.Array, field: pa.Field, path: str) -> Iterator[str]:
    """The dotted paths of what must have a value, and is null. Nothing is missing in a value that is null itself."""
    if not field.nullable and values.null_count:
        yield path
    kind, there = field.type, values.drop_null()
    if pa.types.is_map(kind):
        yield from _missing(there.items, kind.item_field, f"{path}.value")
    elif pa.types.is_struct(kind):
        for number, member in enumerate(kind):
            yield from _missing(there.field(number), member, f"{path}.{member.name}")
    elif pa.types.is_nested(kind):
        yield from _missing(there.flatten(), kind.value_field, f"{path}.element")
