from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.bucket_hash import bucket_ids, bucket_of_hash
from bucketingest.index.errors import InvalidKeyRule, MissingKeyColumn, UnsupportedKeyType
from bucketingest.index.layout_check import hashes_of_record_keys
from bucketingest.index.record_key import KeyColumns, KeyForm, RecordKeyRule
from support.tables.hudi_vectors import keygen_vectors

VECTORS = keygen_vectors()
EVENT = datetime(2024, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
COLUMNS = {
    "i": pa.array([-7, 1], pa.int32()),
    "l": pa.array([1099511627776, -5], pa.int64()),
    "dec": pa.array([Decimal("12.50"), Decimal("0.00")], pa.decimal128(10, 2)),
    "dt": pa.array([date(1969, 12, 31), date(2024, 1, 2)]),
    "evt": pa.array([EVENT, datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "b": pa.array([False, True]),
    "s": pa.array(["😀", "x:y"]),
}
COMPOSITE = pa.record_batch({"a": pa.array([None, "k1", "", "a,b:c"]), "b": pa.array([3, 1, 2, 4], pa.int32())})


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_single_key_of_each_type_has_hudis_text_and_bucket(name: str) -> None:
    keys = RecordKeyRule.of([name], ["region"]).columns(pa.record_batch({name: COLUMNS[name]}))
    found = list(zip(keys.record_key.to_pylist(), keys.bucket_ids(8).tolist(), strict=True))
    assert found == [(key, bucket) for key, bucket, _ in VECTORS[f"single_{name}"].rows]
    assert keys.missing is None


@pytest.mark.parametrize(("case", "hash_fields"), [("comp", []), ("comp_hash_b", ["b"])])
def test_composite_keys_have_hudis_text_and_bucket(case: str, hash_fields: list[str]) -> None:
    keys = RecordKeyRule.of(["a", "b"], ["region"], hash_fields).columns(COMPOSITE)
    found = set(zip(keys.record_key.to_pylist(), keys.bucket_ids(8).tolist(), strict=True))
    assert found == {(key, bucket) for key, bucket, _ in VECTORS[case].rows}


def test_a_timestamp_in_a_composite_is_its_microseconds() -> None:
    batch = pa.record_batch({"a": ["k1"], "evt": pa.array([EVENT], pa.timestamp("us", "UTC"))})
    keys = RecordKeyRule.of(["a", "evt"]).columns(batch)
    assert [(keys.record_key[0].as_py(), int(keys.bucket_ids(8)[0]), "us")] == list(VECTORS["comp_evt"].rows)


@pytest.mark.parametrize("rule", [RecordKeyRule.of(["a"], ["p", "q"]), RecordKeyRule.of(["a"], form=KeyForm.COMPLEX)])
def test_one_key_field_in_complex_form_hashes_the_whole_text(rule: RecordKeyRule) -> None:
    keys = rule.columns(pa.record_batch({"a": ["k1"]}))
    assert [(keys.record_key[0].as_py(), int(keys.bucket_ids(8)[0]), "us")] == list(VECTORS["single_complexkg"].rows)


@pytest.mark.parametrize(
    ("fields", "partition_fields", "form"),
    [
        (["a"], [], KeyForm.SIMPLE),
        (["a"], ["p"], KeyForm.SIMPLE),
        (["a"], ["p", "q"], KeyForm.COMPLEX),
        (["a", "b"], [], KeyForm.COMPLEX),
    ],
)
def test_the_form_follows_from_key_and_partition_fields(
    fields: list[str], partition_fields: list[str], form: KeyForm
) -> None:
    assert RecordKeyRule.of(fields, partition_fields).form is form


def test_a_simple_string_key_is_the_column_itself() -> None:
    column = pa.array(["a", "b", "c"])[1:]
    keys = RecordKeyRule.of(["s"]).columns(pa.record_batch({"s": column}))
    assert keys.record_key.buffers()[2].address == column.buffers()[2].address
    assert keys.hash_keys[0] is keys.record_key


@pytest.mark.parametrize("form", list(KeyForm))
def test_a_single_key_that_is_null_or_empty_is_missing(form: KeyForm) -> None:
    keys = RecordKeyRule.of(["a"], form=form).columns(pa.record_batch({"a": ["x", None, "", "__null__"]}))
    assert keys.missing is not None
    assert keys.missing.to_pylist() == [False, True, True, False]


def test_a_composite_is_missing_only_when_every_field_is() -> None:
    batch = pa.record_batch({"a": ["x", None, "", None], "b": pa.array([None, 1, None, None], pa.int32())})
    keys = RecordKeyRule.of(["a", "b"]).columns(batch)
    assert keys.missing is not None
    assert keys.missing.to_pylist() == [False, False, True, True]
    assert keys.record_key.to_pylist()[:2] == ["a:x,b:__null__", "a:__null__,b:1"]


def test_a_key_that_is_not_text_is_missing_and_harms_no_other_row() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfeb")])
    keys = RecordKeyRule.of(["s", "n"]).columns(pa.record_batch({"s": broken, "n": [1, 2, 3]}))
    assert keys.missing is not None
    assert keys.missing.to_pylist() == [False, True, False]
    assert (
        keys.bucket_ids(8).tolist()[::2]
        == bucket_of_hash(hashes_of_record_keys(["s:a,n:1", "s:b,n:3"], RecordKeyRule.of(["s", "n"])), 8).tolist()
    )


tricky = st.lists(
    st.sampled_from([":", ",", "id", "sub", "id:", ",sub:", "é", "__null__", "__empty__", "7"]), max_size=5
).map("".join)


@given(
    st.lists(st.tuples(st.none() | tricky, st.none() | tricky), min_size=1, max_size=12),
    st.sampled_from([("id", "sub"), ("id",), ("sub",), ("sub", "id")]),
    st.sampled_from(["hudi", "murmur3"]),
)
def test_a_composites_bucket_is_a_function_of_its_text(
    rows: list[tuple[str | None, str | None]], hash_fields: tuple[str, ...], hash_name: str
) -> None:
    rule = RecordKeyRule.of(["id", "sub"], hash_fields=hash_fields)
    batch = pa.record_batch(
        {"id": pa.array([r[0] for r in rows], pa.string()), "sub": pa.array([r[1] for r in rows], pa.string())}
    )
    keys = rule.columns(batch)
    from_text = hashes_of_record_keys(keys.record_key.to_pylist(), rule, hash_name)  # type: ignore[arg-type]
    buckets = keys.bucket_ids(1009, hash_name).tolist()  # type: ignore[arg-type]
    found = zip(ambiguous(keys), buckets, bucket_of_hash(from_text, 1009).tolist(), strict=True)
    assert all(no_row or bucket == of_text for no_row, bucket, of_text in found)


def ambiguous(keys: KeyColumns) -> list[bool]:
    if keys.ambiguous is None:
        return [False] * len(keys.record_key)
    return [bool(each) for each in keys.ambiguous.to_pylist()]


hostile = st.lists(st.sampled_from([":", ",", "b", "c", ",b:", ",c:", "__null__", "__empty__"]), max_size=4).map(
    "".join
)


@given(st.lists(st.tuples(*[st.none() | hostile] * 3), min_size=2, max_size=40))
def test_rows_of_different_values_never_have_one_composite_key(rows: list[tuple[str | None, ...]]) -> None:
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate("abc")}
    keys = RecordKeyRule.of(["a", "b", "c"]).columns(pa.record_batch(columns))
    by_key: dict[str, set[tuple[str | None, ...]]] = defaultdict(set)
    for row, key, no_row in zip(rows, keys.record_key.to_pylist(), ambiguous(keys), strict=True):
        if not no_row:
            by_key[key].add(row)
    assert [found for found in by_key.values() if len(found) > 1] == []


def test_only_a_value_that_makes_two_rows_one_is_ambiguous() -> None:
    rows = [
        ("x,b:y", "z"), ("x", "y,b:z"), ("x,a:y", "z"), ("x,y", "z:1"), ("b:x", ",b"), (",b", ":x"), ("x,b:", "z"),
        ("__null__", "z"), ("x", "__null__"), (None, "x"), ("__empty__", "z"), ("", "z"), ("__null__ ", "z"),
    ]  # fmt: skip
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate("ab")}
    keys = RecordKeyRule.of(["a", "b"]).columns(pa.record_batch(columns))
    refused = [row for row, no_row in zip(rows, ambiguous(keys), strict=True) if no_row]
    assert refused == [("x,b:y", "z"), ("x,b:", "z"), ("__null__", "z"), ("x", "__null__"), ("__empty__", "z")]


@pytest.mark.parametrize("form", list(KeyForm))
def test_a_single_key_is_never_ambiguous(form: KeyForm) -> None:
    assert RecordKeyRule.of(["a"], form=form).columns(pa.record_batch({"a": ["__null__", "x,a:y"]})).ambiguous is None


@given(st.lists(tricky.filter(bool), min_size=1, max_size=12), st.sampled_from(list(KeyForm)))
def test_a_single_keys_bucket_is_a_function_of_its_text(values: list[str], form: KeyForm) -> None:
    rule = RecordKeyRule.of(["id"], form=form)
    keys = rule.columns(pa.record_batch({"id": values}))
    from_text = hashes_of_record_keys(keys.record_key.to_pylist(), rule)
    assert keys.bucket_ids(1009).tolist() == bucket_of_hash(from_text, 1009).tolist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int32()),
        pa.struct([("x", pa.int32())]),
        pa.map_(pa.string(), pa.string()),
        pa.binary(),
        pa.time64("us"),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.dictionary(pa.int32(), pa.float64()),
    ],
)
def test_a_type_without_a_text_is_refused_by_name_at_plan_time(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedKeyType, match=r"'tags'.*has type"):
        RecordKeyRule.of(["tags"]).check(pa.schema([("tags", kind)]))


def test_a_missing_key_column_is_refused_with_the_columns_there_are() -> None:
    with pytest.raises(MissingKeyColumn, match=r"'oid' is not among the columns \(id, ts\)"):
        RecordKeyRule.of(["oid"]).check(pa.schema([("id", pa.string()), ("ts", pa.int64())]))


@pytest.mark.parametrize(
    ("fields", "hash_fields", "message"),
    [
        ([], [], "no key field"),
        (["a", "a"], [], "twice"),
        (["a,b"], [], "separates names"),
        (["a:b", "c"], [], "separates names"),
        (["a"], ["b"], "not record key fields"),
        (["a", "b"], ["b", "b"], "twice"),
    ],
)
def test_rules_that_cannot_hold_are_refused(fields: list[str], hash_fields: list[str], message: str) -> None:
    with pytest.raises(InvalidKeyRule, match=message):
        RecordKeyRule.of(fields, hash_fields=hash_fields)


def test_hash_fields_take_the_order_of_the_record_key() -> None:
    assert RecordKeyRule.of(["a", "b", "c"], hash_fields=["c", "a"]).hash_fields == ("a", "c")


@pytest.mark.parametrize(
    ("form", "value", "hash_key"),
    [
        (KeyForm.SIMPLE, "id:1,z:2", "1"),
        (KeyForm.SIMPLE, "x:y,z", "x:y,z"),
        (KeyForm.COMPLEX, "k,1", "k,1"),
        (KeyForm.COMPLEX, "x,y:z", "x"),
        (KeyForm.COMPLEX, "x:y", "id:x:y"),
    ],
)
def test_a_single_key_that_looks_composite_hashes_as_hudi_reads_it(form: KeyForm, value: str, hash_key: str) -> None:
    keys = RecordKeyRule.of(["id"], form=form).columns(pa.record_batch({"id": ["plain", value]}))
    assert keys.bucket_ids(1009)[1] == bucket_ids([pa.array([hash_key])], 1009)[0]
