"""Random Arrow columns of every type a table can hold, with the same values as Avro's own encoders take them."""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from bucketingest.hudi.table.schema import decimal_bytes

_CTX = Context(prec=50)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROS = st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999)

_SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.sampled_from([s * 2**k for k in range(63) for s in (1, -1)]),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=80),
    pa.large_string(): st.text(max_size=8),
    pa.binary(): st.binary(max_size=80),
    pa.large_binary(): st.binary(max_size=8),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): _MICROS,
    pa.timestamp("us", tz="Europe/Berlin"): _MICROS,
}


@st.composite
def decimal_types(draw: st.DrawFn) -> pa.DataType:
    precision = draw(st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def arrow_types(*, nested: bool = True) -> st.SearchStrategy[pa.DataType]:
    """Any storable type; lists, structs and maps up to a few levels deep."""
    scalars = st.sampled_from(list(_SCALARS)) | decimal_types()
    return st.recursive(scalars, _containers, max_leaves=4) if nested else scalars


def _containers(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.tuples(inner, st.booleans())
    return st.one_of(
        fields.map(lambda f: pa.list_(pa.field("element", *f))),
        fields.map(lambda f: pa.large_list(pa.field("element", *f))),
        fields.map(lambda f: pa.map_(pa.string(), pa.field("value", *f))),
        st.lists(fields, min_size=1, max_size=3).map(
            lambda fs: pa.struct([pa.field(f"f{i}", *f) for i, f in enumerate(fs)])
        ),
    )


def values(field: pa.Field) -> st.SearchStrategy[Any]:
    """Python values for one field, None among them if it is nullable."""
    kind = field.type
    if pa.types.is_decimal(kind):
        largest = 10**kind.precision - 1
        found: st.SearchStrategy[Any] = st.integers(-largest, largest).map(
            lambda v: Decimal(v).scaleb(-kind.scale, _CTX)
        )
    elif pa.types.is_struct(kind):
        found = st.fixed_dictionaries({child.name: values(child) for child in kind})
    elif pa.types.is_map(kind):
        found = st.dictionaries(st.text(max_size=4), values(kind.item_field), max_size=3)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = st.lists(values(kind.value_field), max_size=4)
    else:
        found = _SCALARS[kind]
    return st.none() | found if field.nullable else found


def to_arrow(field: pa.Field, column: list[Any]) -> pa.Array:
    """The array of these Python values; maps are given as dicts."""
    return pa.array([_entries(field.type, value) for value in column], field.type)


def _entries(kind: pa.DataType, value: Any) -> Any:
    """Dicts of maps as the pairs pyarrow wants."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _entries(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_struct(kind):
        return {child.name: _entries(child.type, value[child.name]) for child in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_entries(kind.value_type, item) for item in value]
    return value


def to_avro(kind: pa.DataType, value: Any) -> Any:
    """The value as an Avro encoder takes it, decimals as their bytes: it writes negative ones wrongly now and then."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        unscaled = int(value.scaleb(kind.scale, _CTX))
        return unscaled.to_bytes(decimal_bytes(kind.precision), "big", signed=True)
    if pa.types.is_map(kind):
        return {key: to_avro(kind.item_type, item) for key, item in value.items()}
    if pa.types.is_struct(kind):
        return {child.name: to_avro(child.type, value[child.name]) for child in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [to_avro(kind.value_type, item) for item in value]
    return value


def as_given(kind: pa.DataType, value: Any) -> Any:
    """What an Avro decoder or Arrow gave, as the Python value it came from: timestamps as microseconds again."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return (value.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
    if pa.types.is_map(kind):
        return {key: as_given(kind.item_type, item) for key, item in dict(value).items()}
    if pa.types.is_struct(kind):
        return {child.name: as_given(child.type, value[child.name]) for child in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [as_given(kind.value_type, item) for item in value]
    return value
