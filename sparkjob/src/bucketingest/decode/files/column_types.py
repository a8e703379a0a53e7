"""Which of a file's columns are which of the schema: by name, in any case; which types are read as which; and as which
type a column comes that no schema names.

A type is widened where every value of it is a value of the wider one. Nothing is narrowed, rounded or read as text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bucketingest.avro.conversion import converted, places_of
from bucketingest.decode.ddl import type_in_ddl
from bucketingest.decode.files.parts import BadFile


def names_of(found: pa.Schema, columns: pa.Schema) -> list[str | None]:
    """What the file calls each column; None for one that it lacks. Raises BadFile."""
    by_name: dict[str, list[pa.Field]] = {}
    for field in found:
        by_name.setdefault(field.name.lower(), []).append(field)
    names: list[str | None] = []
    for wanted in columns:
        of_name = by_name.get(wanted.name.lower(), [])
        if len(of_name) > 1:
            exact = [field for field in of_name if field.name == wanted.name]
            if len(exact) != 1:
                raise BadFile(f"column {wanted.name}: the file has it {len(of_name)} times")
            of_name = exact
        for field in of_name:
            if (why := why_not(field.type, wanted.type)) is not None:
                raise BadFile(
                    f"column {wanted.name}: {why}; give the column this type in source.files.schema, or write the "
                    "file again"
                )
        names.append(of_name[0].name if of_name else None)
    return names


def why_not(found: pa.DataType, wanted: pa.DataType) -> str | None:
    """Why values of the first type are not read as the second, with both; None if they are. Pure."""
    return None if _fits(found, wanted) else f"the file has {type_in_ddl(found)}, the schema {type_in_ddl(wanted)}"


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if found == wanted:
        return True
    if isinstance(found, pa.BaseExtensionType):
        return _fits(found.storage_type, wanted)
    if t.is_dictionary(found):
        return _fits(found.value_type, wanted)
    if t.is_null(found):
        return True
    if t.is_struct(wanted) and t.is_struct(found):
        places = places_of(found, wanted)
        return places is not None and all(
            place is None or _fits(found.field(place).type, each.type)
            for place, each in zip(places, wanted, strict=True)
        )
    if t.is_list(wanted) and (t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)):
        return _fits(found.value_type, wanted.value_type)
    if t.is_map(wanted) and t.is_map(found):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    return _is_wider(found, wanted)


def _is_wider(found: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if t.is_string(wanted):
        return bool(t.is_large_string(found) or found == pa.string_view())
    if t.is_binary(wanted):
        return bool(t.is_large_binary(found) or t.is_fixed_size_binary(found) or found == pa.binary_view())
    if t.is_integer(wanted) and t.is_integer(found):
        return bool(found.bit_width < wanted.bit_width and t.is_signed_integer(wanted))
    if t.is_floating(wanted):
        if t.is_integer(found):
            return bool(found.bit_width < (64 if t.is_float64(wanted) else 32))
        return bool(t.is_floating(found) and found.bit_width < wanted.bit_width)
    if t.is_decimal(wanted):
        if t.is_integer(found):
            return bool(wanted.precision - wanted.scale >= {8: 3, 16: 5, 32: 10, 64: 20}[found.bit_width])
        whole = wanted.precision - wanted.scale
        return bool(t.is_decimal(found) and found.scale <= wanted.scale and found.precision - found.scale <= whole)
    if t.is_timestamp(wanted):
        # Without a zone it is read as UTC; a moment has no local time.
        return bool(t.is_timestamp(found) and (wanted.tz is not None or found.tz is None))
    return bool(t.is_date32(wanted) and t.is_date64(found))


def converted_column(array: pa.Array, wanted: pa.Field) -> pa.Array:
    """A column's values in its type. Raises BadFile, which names the column."""
    try:
        return converted(array, wanted.type)
    except pa.ArrowInvalid as error:
        kinds = type_in_ddl(array.type), type_in_ddl(wanted.type)
        raise BadFile(f"column {wanted.name}: a {kinds[0]} is no {kinds[1]}: {error}") from None


def read_as(found: pa.DataType) -> pa.DataType | None:
    """The type that a column of a file gets where no schema names one; None if there is none. Pure."""
    t = pa.types
    simple: dict[Any, pa.DataType] = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
        pa.large_string(): pa.string(),
        pa.string_view(): pa.string(),
        pa.large_binary(): pa.binary(),
        pa.binary_view(): pa.binary(),
    }
    if found in simple:
        return simple[found]
    if isinstance(found, pa.BaseExtensionType):
        return read_as(found.storage_type)
    if t.is_dictionary(found):
        return read_as(found.value_type)
    if t.is_timestamp(found):
        return pa.timestamp("us", None if found.tz is None else "UTC")
    if t.is_fixed_size_binary(found):
        return pa.binary()
    if t.is_decimal(found):
        return pa.decimal128(found.precision, found.scale) if found.precision <= 38 else None
    if t.is_struct(found):
        inner = [(found.field(at).name, read_as(found.field(at).type)) for at in range(found.num_fields)]
        return pa.struct(inner) if all(kind is not None for _, kind in inner) else None
    if t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found):
        item = read_as(found.value_type)
        return None if item is None else pa.list_(item)
    if t.is_map(found):
        key, item = read_as(found.key_type), read_as(found.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    plain = (
        t.is_boolean(found)
        or t.is_signed_integer(found)
        or t.is_floating(found)
        or t.is_date32(found)
        or t.is_string(found)
        or t.is_binary(found)
    )
    return found if plain else None
