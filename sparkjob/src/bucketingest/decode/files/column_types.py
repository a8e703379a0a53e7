"""Which of a file's columns are which of the schema: by name, in any case; which types are read as which; and as which
type a column comes that no schema names.

A type is widened where every value of it is a value of the wider one. Nothing is narrowed, rounded or read as text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        places = _places(found, wanted)
        return places is not None and all(
            place is None or _fits(found.field(place).type, each.type)
            for place, each in zip(places, wanted, strict=True)
        )
    if t.is_list(wanted) and (t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)):
        return _fits(found.value_type, wanted.value_type)
    if t.is_map(wanted) and t.is_map(found):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    return _is_wider(found, wanted)


def _places(found: pa.StructType, wanted: pa.StructType) -> list[int | None] | None:
    """Where each field is in the other type, by name in any case; None if several could be one of them."""
    places: list[int | None] = []
    for each in wanted:
        same = [at for at, field in enumerate(found) if field.name.lower() == each.name.lower()]
        if len(same) > 1:
            same = [at for at in same if found.field(at).name == each.name]
            if len(same) != 1:
                return None
        places.append(same[0] if same else None)
    return places


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
    """A column's values in its type, as `converted` gives them. Raises BadFile, which names the column."""
    try:
        return converted(array, wanted.type)
    except pa.ArrowInvalid as error:
        kinds = type_in_ddl(array.type), type_in_ddl(wanted.type)
        raise BadFile(f"column {wanted.name}: a {kinds[0]} is no {kinds[1]}: {error}") from None


def converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in a type for which `why_not` says nothing. Raises ArrowInvalid for one that does not fit."""
    t = pa.types
    found = array.type
    if found == wanted:
        return array
    if isinstance(found, pa.BaseExtensionType):
        return converted(array.storage, wanted)
    if t.is_dictionary(found):
        return converted(array.dictionary_decode(), wanted)
    if t.is_struct(wanted) and t.is_struct(found):
        return _struct(array, wanted)
    if t.is_list(wanted) and not t.is_null(found):
        return _list(array.cast(pa.list_(found.value_type)), wanted)
    if t.is_map(wanted) and t.is_map(found):
        return _map(array, wanted)
    if t.is_timestamp(wanted) and t.is_timestamp(found):
        if found.unit == "ns":  # what is finer than a microsecond is no part of any column here
            return pc.floor_temporal(array, unit="microsecond").cast(wanted)
        return array.cast(wanted)
    return array.cast(wanted)


def _struct(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    places = _places(array.type, wanted)
    assert places is not None, "else `why_not` says so"
    children = [
        pa.nulls(len(array), field.type) if place is None else converted(array.field(place), field.type)
        for place, field in zip(places, wanted, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=_mask(array))


def _list(array: pa.ListArray, wanted: pa.ListType) -> pa.Array:
    values = converted(array.flatten(), wanted.value_type)
    return pa.ListArray.from_arrays(_offsets(array), values, type=wanted, mask=_mask(array))


def _map(array: pa.MapArray, wanted: pa.MapType) -> pa.Array:
    entries = pa.struct([pa.field("key", array.type.key_type, nullable=False), ("value", array.type.item_type)])
    pairs = array.cast(pa.list_(entries))
    keys, items = pairs.flatten().flatten()
    keys, items = converted(keys, wanted.key_type), converted(items, wanted.item_type)
    return pa.MapArray.from_arrays(_offsets(pairs), keys, items, type=wanted, mask=_mask(array))


def _offsets(array: pa.ListArray) -> pa.Int32Array:
    """Of its values behind each other, without those of nulls."""
    return pa.array(np.concatenate(([0], np.cumsum(pc.fill_null(array.value_lengths(), 0).to_numpy()))), pa.int32())


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


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
