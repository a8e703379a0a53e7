"""The Python type that msgspec is asked for, for each Arrow type, and the way back: decoded values as Arrow's arrays.

Objects become structs and never dicts, which are three times slower; lists, maps and structs inside each other are
flattened, so that each column is one comprehension over all rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.json.verbatim import NULL, dates, decimals, floats, numbered_times, strings, times

NotFinite: TypeAlias = Literal["NaN", "Infinity", "-Infinity"]


class Refusal(NamedTuple):
    """Why a value does not fit its column."""

    path: str
    """Of fields, from the value's column on; "" for the column itself."""
    why: str

    def inside(self, name: str) -> Refusal:
        """The same with a name, or the number of an item, before it."""
        return Refusal(joined(name, self.path), self.why)


Made: TypeAlias = tuple[pa.Array, dict[int, Refusal]]
"""The values, and by its place why one is none; what the array has there does not count."""


class Column(NamedTuple):
    """How values of an Arrow type are decoded."""

    kind: Any
    """The type for msgspec."""
    array: Callable[[list[Any]], Made]
    """Decoded values as an array."""
    absent: Any = None
    """The value of a member that is not there."""


def joined(name: str, path: str) -> str:
    """A path of names and items, `lines[1].at`."""
    return name + ("." if path and not path.startswith("[") else "") + path


def column_of(wanted: pa.DataType, unit: int, *, verbatim: bool) -> Column:
    """`unit`: see `times.MICROS_OF`. `verbatim`: in a STRING also what is no text, as it is written; slower."""
    if pa.types.is_struct(wanted):
        inner = row_of(pa.schema([wanted.field(at) for at in range(wanted.num_fields)]), unit, verbatim=verbatim)
        return inner._replace(kind=inner.kind | None)
    if pa.types.is_list(wanted):
        return _list_of(wanted, column_of(wanted.value_type, unit, verbatim=verbatim))
    if pa.types.is_map(wanted):
        return _map_of(wanted, column_of(wanted.item_type, unit, verbatim=verbatim))
    if pa.types.is_decimal(wanted):
        return _raw(lambda values: decimals(values, wanted))
    if pa.types.is_float32(wanted):
        return _raw(floats)
    if pa.types.is_timestamp(wanted):
        return _raw(lambda values: numbered_times(values, unit)) if unit else Column(str | None, _leaf(times))
    if pa.types.is_date(wanted):
        return Column(str | None, _leaf(dates))
    if pa.types.is_string(wanted) and verbatim:
        return _raw(strings)
    if pa.types.is_float64(wanted):
        return Column(float | NotFinite | None, _doubles)
    return Column(_KINDS[wanted] | None, lambda values: (pa.array(values, wanted), {}))


def row_of(fields: pa.Schema, unit: int, *, verbatim: bool) -> Column:
    """An object, never null, with these members. The other parameters as for `column_of`."""
    members = [column_of(field.type, unit, verbatim=verbatim) for field in fields]
    places = [f"f{at}" for at in range(len(fields))]
    kind = msgspec.defstruct(
        "Object",
        [(place, member.kind, member.absent) for place, member in zip(places, members, strict=True)],
        rename={place: field.name for place, field in zip(places, fields, strict=True)},
        eq=False,
        gc=False,
    )
    nothing = kind()
    parts = [
        (field.name, member, attrgetter(place)) for field, member, place in zip(fields, members, places, strict=True)
    ]

    def array(values: list[Any]) -> Made:
        mask = None
        if None in values:
            mask = pa.array([value is None for value in values])
            values = [nothing if value is None else value for value in values]
        arrays, refused = [], dict[int, Refusal]()
        for name, member, get in parts:
            made, refusals = member.array(list(map(get, values)))
            arrays.append(made)
            for at, refusal in refusals.items():
                refused.setdefault(at, refusal.inside(name))
        return pa.StructArray.from_arrays(arrays, fields=list(fields), mask=mask), refused

    return Column(kind, array)


def _list_of(wanted: pa.ListType, item: Column) -> Column:
    def array(values: list[Any]) -> Made:
        offsets, mask = _offsets(values)
        items, refusals = item.array(list(itertools.chain.from_iterable(filter(None, values))))
        refused: dict[int, Refusal] = {}
        for at, refusal in refusals.items():
            row = _row_of(at, offsets)
            refused.setdefault(row, refusal.inside(f"[{at - offsets[row]}]"))
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=wanted, mask=mask), refused

    return Column(list[item.kind] | None, array)  # type: ignore[name-defined]


def _map_of(wanted: pa.MapType, item: Column) -> Column:
    def array(values: list[Any]) -> Made:
        offsets, mask = _offsets(values)
        full = [value for value in values if value]
        names = list(itertools.chain.from_iterable(full))
        items, refusals = item.array(list(itertools.chain.from_iterable(value.values() for value in full)))
        refused: dict[int, Refusal] = {}
        for at, refusal in refusals.items():
            refused.setdefault(_row_of(at, offsets), refusal.inside(names[at]))
        keys = pa.array(names, pa.string())
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items, type=wanted, mask=mask), refused

    return Column(dict[str, item.kind] | None, array)  # type: ignore[name-defined]


def _offsets(values: list[Any]) -> tuple[npt.NDArray[np.int32], pa.Array | None]:
    """Where the items of each value begin among all items, and which values are null."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) if value else 0 for value in values], out=offsets[1:])
    return offsets, pa.array([value is None for value in values]) if None in values else None


def _row_of(item: int, offsets: npt.NDArray[np.int32]) -> int:
    return int(np.searchsorted(offsets, item, side="right")) - 1


def _leaf(read: Callable[[list[Any]], tuple[pa.Array, dict[int, str]]]) -> Callable[[list[Any]], Made]:
    def array(values: list[Any]) -> Made:
        made, refused = read(values)
        return made, {at: Refusal("", why) for at, why in refused.items()}

    return array


def _raw(read: Callable[[list[Any]], tuple[pa.Array, dict[int, str]]]) -> Column:
    return Column(msgspec.Raw, _leaf(read), NULL)


def _doubles(values: list[Any]) -> Made:
    try:
        return pa.array(values, pa.float64()), {}
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # one of `NotFinite`, as text
        return pa.array([None if value is None else float(value) for value in values], pa.float64()), {}


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]


_KINDS: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): bytes,
    pa.int8(): _whole(8),
    pa.int16(): _whole(16),
    pa.int32(): _whole(32),
    pa.int64(): _whole(64),
}
