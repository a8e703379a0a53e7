"""Values of one Arrow type as those of another that has them all, inside records, arrays and maps too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Cast = Callable[[pa.Array, pa.DataType], pa.Array]
SURE: Final = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""All whole numbers up to it are kept."""


def plain(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """As Arrow does it."""
    return array.cast(wanted)


def kept(number: int, kind: pa.DataType) -> int:
    """The whole number that a column of a floating type shows, also after it was widened: readers widen a FLOAT by its
    shortest text, so that 2^60 would become 1152921500000000000.
    """
    return int(float(number)) if pa.types.is_float64(kind) else int(float(str(np.float32(number))))


def exact(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same numbers: a float by its shortest text, so that 0.1 stays 0.1. Raises ArrowInvalid for a whole number
    that a floating type would round.
    """
    if pa.types.is_float32(array.type) and pa.types.is_float64(wanted):
        return array.cast(pa.string()).cast(wanted)
    if pa.types.is_integer(array.type) and pa.types.is_floating(wanted):
        sure = SURE[wanted]
        if pa.types.is_signed_integer(array.type):
            is_large = pc.or_(pc.greater(array, sure), pc.less(array, -sure))
        else:
            is_large = pc.greater(array, pa.scalar(sure, pa.uint64()))
        large = array.filter(is_large)
        for value in large.to_pylist():
            if kept(value, wanted) != value:
                kind = "double" if pa.types.is_float64(wanted) else "float"
                raise pa.ArrowInvalid(f"{value} has more digits than a {kind} keeps")
        return array.cast(wanted, safe=False)
    return array.cast(wanted)


def converted(array: pa.Array, wanted: pa.DataType, cast: Cast = plain) -> pa.Array:
    """The values in a type that has them all: fields that they lack are null. `cast`: what has nothing inside. Raises
    ArrowInvalid for a value that does not fit.
    """
    t = pa.types
    found = array.type
    if found == wanted:
        return array
    if isinstance(found, pa.BaseExtensionType):
        return converted(array.storage, wanted, cast)
    if t.is_dictionary(found):
        return converted(array.dictionary_decode(), wanted, cast)
    if t.is_struct(wanted) and t.is_struct(found):
        return _struct(array, wanted, cast)
    if t.is_list(wanted) and not t.is_null(found):
        return _list(array.cast(pa.list_(found.value_type)), wanted, cast)
    if t.is_map(wanted) and t.is_map(found):
        return _map(array, wanted, cast)
    if t.is_timestamp(wanted) and t.is_timestamp(found):
        if found.unit == "ns":  # what is finer than a microsecond is no part of any column here
            return pc.floor_temporal(array, unit="microsecond").cast(wanted)
        return array.cast(wanted)
    return cast(array, wanted)


def places_of(found: pa.StructType, wanted: pa.StructType) -> list[int | None] | None:
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


def _struct(array: pa.StructArray, wanted: pa.StructType, cast: Cast) -> pa.Array:
    places = places_of(array.type, wanted)
    assert places is not None, "each field is one of the other type's, or none"
    children = [
        pa.nulls(len(array), field.type) if place is None else converted(array.field(place), field.type, cast)
        for place, field in zip(places, wanted, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=_mask(array))


def _list(array: pa.ListArray, wanted: pa.ListType, cast: Cast) -> pa.Array:
    values = converted(array.flatten(), wanted.value_type, cast)
    return pa.ListArray.from_arrays(_offsets(array), values, type=wanted, mask=_mask(array))


def _map(array: pa.MapArray, wanted: pa.MapType, cast: Cast) -> pa.Array:
    entries = pa.struct([pa.field("key", array.type.key_type, nullable=False), ("value", array.type.item_type)])
    pairs = array.cast(pa.list_(entries))
    keys, items = pairs.flatten().flatten()
    keys, items = converted(keys, wanted.key_type, cast), converted(items, wanted.item_type, cast)
    return pa.MapArray.from_arrays(_offsets(pairs), keys, items, type=wanted, mask=_mask(array))


def _offsets(array: pa.ListArray) -> pa.Int32Array:
    """Of its values behind each other, without those of nulls."""
    return pa.array(np.concatenate(([0], np.cumsum(pc.fill_null(array.value_lengths(), 0).to_numpy()))), pa.int32())


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None
