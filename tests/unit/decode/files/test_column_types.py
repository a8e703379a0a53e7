"""Types of a file within types: a value is found by its names in any case and gets the wider type at any depth, or the
column is refused. None becomes null without a word.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.avro.conversion import converted
from bucketingest.decode.files.column_types import read_as, why_not

Pair = tuple[pa.DataType, pa.DataType]
LEAVES: list[Pair] = [
    (pa.int16(), pa.int64()),
    (pa.int32(), pa.int32()),
    (pa.float32(), pa.float64()),
    (pa.large_string(), pa.string()),
    (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
]


def _struct(fields: list[Pair]) -> Pair:
    names = [(f"Field{at}", f"field{at}") for at in range(len(fields))]
    found = pa.struct([(name, pair[0]) for (name, _), pair in zip(names, fields, strict=True)])
    return found, pa.struct([(name, pair[1]) for (_, name), pair in zip(names, fields, strict=True)])


def _nested(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_struct),
        inner.map(lambda pair: (pa.list_(pair[0]), pa.list_(pair[1]))),
        inner.map(lambda pair: (pa.large_list(pair[0]), pa.list_(pair[1]))),
        inner.map(lambda pair: (pa.map_(pa.string(), pair[0]), pa.map_(pa.string(), pair[1]))),
    )


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Of a file's type; a time is a whole number of seconds, which every unit has."""
    t = pa.types
    if t.is_struct(kind):
        some: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {kind.field(at).name: _values(kind.field(at).type) for at in range(len(kind))}
        )
    elif t.is_map(kind):
        some = st.lists(st.tuples(st.text("ab", max_size=2), _values(kind.item_type)), max_size=3)
    elif t.is_list(kind) or t.is_large_list(kind):
        some = st.lists(_values(kind.value_type), max_size=3)
    elif t.is_timestamp(kind):
        some = st.integers(0, 9).map(lambda seconds: seconds * {"ns": 10**9, "ms": 10**3}[kind.unit])
    else:
        some = st.text("xyz", max_size=2) if t.is_large_string(kind) else st.integers(-9, 9)
    return st.none() | some


def _plain(value: Any) -> Any:
    """Without the case of names."""
    if isinstance(value, dict):
        return {name.lower(): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@given(data=st.data(), pair=st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=4), start=st.integers(0, 2))
def test_a_value_stays_itself_at_any_depth(data: st.DataObject, pair: Pair, start: int) -> None:
    found, wanted = pair
    array = pa.array(data.draw(st.lists(_values(found), max_size=5)), found).slice(start)
    assert why_not(found, wanted) is None
    made = converted(array, wanted)
    made.validate(full=True)
    assert made.type == wanted
    assert _plain(made.to_pylist()) == _plain(array.to_pylist())


def test_of_fields_whose_names_differ_in_case_that_of_the_same_case_is_read_or_the_column_is_refused() -> None:
    twice = pa.array([{"x": 1, "X": 2}])
    assert converted(twice, pa.struct([("X", pa.int64())])).to_pylist() == [{"X": 2}]
    assert why_not(pa.struct([("x", pa.int64()), ("X", pa.int64())]), pa.struct([("z", pa.int64())])) is None
    assert why_not(pa.struct([("xY", pa.int64()), ("Xy", pa.int64())]), pa.struct([("xy", pa.int64())])) is not None


@pytest.mark.parametrize("kind", [pa.uuid(), pa.json_(), pa.bool8()])
def test_a_type_with_a_name_of_its_own_is_read_as_what_it_is_stored_as(kind: pa.BaseExtensionType) -> None:
    storage = read_as(kind)
    assert storage is not None
    array = pa.ExtensionArray.from_storage(kind, pa.array([None], kind.storage_type))
    assert why_not(kind, storage) is None
    assert converted(array, storage).equals(pa.array([None], storage))
