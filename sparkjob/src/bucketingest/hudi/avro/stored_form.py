"""Arrow columns as Hudi stores them, if Parquet's writer would store them differently or refuse them.

Hudi's Avro schemas have only ``int`` and ``long``: a Parquet column of 8 or 16 bits would disagree with the schema in
its own block's header, so such columns become int32. Spark sends a null struct with all its fields null, also the
required ones, which pyarrow's Parquet writer treats as nulls in a required column.
"""

from __future__ import annotations

import pyarrow as pa

from bucketingest.hudi.errors import SchemaError


def stored_form(table: pa.Table) -> pa.Table:
    """The same rows in the stored form, without schema metadata. Unchanged columns are passed on, not copied.

    Raises `SchemaError` if a column or field that is not nullable holds nulls of its own.
    """
    for position, field in enumerate(table.schema):
        column = table.column(position)
        check_nulls(field, column.null_count)
        kind = _stored_type(field.type)
        if kind != field.type or _has_required_fields(kind):
            chunks = [_stored_array(chunk, kind) for chunk in column.chunks]
            table = table.set_column(position, field.with_type(kind), pa.chunked_array(chunks, kind))
    return table.replace_schema_metadata(None)


def check_nulls(field: pa.Field, nulls: int) -> None:
    """Raise `SchemaError` if there are nulls and the field is not nullable."""
    if nulls and not field.nullable:
        raise SchemaError(f"column {field.name!r} is not nullable but has {nulls} nulls; declare it nullable")


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored_type(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_stored_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_stored_type(kind.item_type)))
    return kind


def _has_required_fields(kind: pa.DataType) -> bool:
    """Whether the type is, or contains, a struct with a required field."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or _has_required_fields(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _has_required_fields(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_required_fields(kind.value_type)
    return False


def _stored_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        validity = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(kind, len(array), [validity], array.null_count, 0, _stored_fields(array, kind))
    if pa.types.is_map(kind):
        items = _stored_array(array.items, kind.item_type)
        fields = [pa.field("key", kind.key_type, nullable=False), kind.item_field]
        children = [pa.Array.from_buffers(pa.struct(fields), len(items), [None], 0, 0, [array.keys, items])]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children = [_stored_array(array.values, kind.value_type)]
    else:
        return array.cast(kind)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, children)


def _stored_fields(array: pa.Array, kind: pa.StructType) -> list[pa.Array]:
    children = []
    for position, (field, flattened) in enumerate(zip(kind, array.flatten(), strict=True)):
        # Flattening gives a child the nulls of its struct, too: more than those are its own.
        check_nulls(field, 0 if field.nullable else flattened.null_count - array.null_count)
        child = _stored_array(array.field(position), field.type)
        children.append(child if field.nullable or not child.null_count else _without_nulls(child))
    return children


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array without its validity bitmap: nulls become the values under them."""
    kind = array.type
    if pa.types.is_struct(kind):
        buffers, offset, children = [None], 0, [array.field(i) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        fields = [pa.field("key", kind.key_type, nullable=False), kind.item_field]
        entries = pa.Array.from_buffers(pa.struct(fields), len(array.keys), [None], 0, 0, [array.keys, array.items])
        buffers, offset, children = [None, array.buffers()[1]], array.offset, [entries]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        buffers, offset, children = [None, array.buffers()[1]], array.offset, [array.values]
    else:
        buffers, offset, children = [None, *array.buffers()[1:]], array.offset, []
    return pa.Array.from_buffers(kind, len(array), buffers, 0, offset, children)
