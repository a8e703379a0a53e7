"""Makes record keys and their hash keys from Arrow columns, so that our rows have the same keys as rows of Hudi's own
writers.

Forms seen in tables written by Hudi 1.2.0: SIMPLE, the bare value; COMPLEX, `field:value,field:value` with `__null__`
and `__empty__`. Hudi's writers give rows of different values one COMPLEX key if their texts are equal; here such rows
are marked as ambiguous.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.index.bucket_hash import BucketHash, BucketIds, HashKeys, bucket_ids
from bucketingest.index.errors import InvalidKeyRule
from bucketingest.index.text import check_key_column, column_text, has_own_text

NULL_KEY: Final = "__null__"
EMPTY_KEY: Final = "__empty__"
_PLACEHOLDERS: Final = pa.array([NULL_KEY, EMPTY_KEY], pa.string())


class KeyForm(StrEnum):
    """The layout of a record key's text (not the table's key generator: a non-partitioned table has SIMPLE keys
    too).
    """

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"


@dataclass(frozen=True)
class KeyColumns:
    """The keys of a batch of n rows."""

    make_record_key: Callable[[], pa.Array]
    hash_keys: tuple[pa.Array, ...]
    """One pa.StringArray[n] per hash field, in record-key order; null where the hash key is null."""
    exceptions: Mapping[int, HashKeys]
    """Rows (by number) whose text Hudi reads differently from the columns: the hash keys that it reads."""
    missing: pa.Array | None
    """pa.BooleanArray[n] without nulls, true where the row has no usable key; None when every row has one."""
    ambiguous: pa.Array | None
    """pa.BooleanArray[n], true where a row of other values could have the same text; None when there is no such row."""

    @functools.cached_property
    def record_key(self) -> pa.Array:
        """pa.StringArray[n], made when it is asked for: a bucket does not need it. For SIMPLE over a string column it
        is that column, not a copy. A missing row's text has no meaning.
        """
        return self.make_record_key()

    def bucket_ids(
        self,
        buckets: int | npt.NDArray[np.int32],
        hash: BucketHash = "hudi",  # noqa: A002 - the word of the spec
    ) -> BucketIds:
        """Bucket id of every row, int32[n]; of a missing row a number without meaning. `buckets` as `bucket_of_hash`
        takes it.
        """
        return bucket_ids(self.hash_keys, buckets, hash, self.exceptions)


@dataclass(frozen=True, slots=True)
class RecordKeyRule:
    """How a table's record keys and hash keys are made. Build it with `of`, which checks it."""

    fields: tuple[str, ...]
    form: KeyForm
    hash_fields: tuple[str, ...]
    """Subset of `fields`, in their order: Hudi hashes them in this order, not in the configured one."""

    @classmethod
    def of(
        cls,
        fields: Sequence[str],
        partition_fields: Sequence[str] = (),
        hash_fields: Sequence[str] = (),
        form: KeyForm | None = None,
    ) -> RecordKeyRule:
        """The rule that Hudi derives: COMPLEX for several key fields, or one with several partition fields; else
        SIMPLE.

        hash_fields: empty for all key fields. form: given if an existing table's properties name it. Raises
        InvalidKeyRule.
        """
        _refuse_bad_names("key", fields)
        _refuse_bad_names("hash", hash_fields or fields)
        strange = [name for name in hash_fields if name not in fields]
        if strange:
            raise InvalidKeyRule(
                f"hash fields {strange} are not record key fields {list(fields)}: hash key fields only"
            )
        derived = KeyForm.COMPLEX if len(fields) > 1 or len(partition_fields) > 1 else KeyForm.SIMPLE
        if form is KeyForm.SIMPLE and len(fields) > 1:
            raise InvalidKeyRule(f"a SIMPLE record key has one field, not {list(fields)}")
        chosen = tuple(name for name in fields if name in hash_fields) if hash_fields else tuple(fields)
        return cls(tuple(fields), form or derived, chosen)

    def check(self, schema: pa.Schema) -> None:
        """Plan-time check; raises MissingKeyColumn or UnsupportedKeyType naming the column."""
        for name in self.fields:
            check_key_column(schema, name)

    def columns(self, batch: pa.RecordBatch) -> KeyColumns:
        """The keys of a batch. Rows that lack a key are marked; they are never dropped and never raise."""
        self.check(batch.schema)
        texts = [column_text(batch.column(name)) for name in self.fields]
        own = [has_own_text(batch.column(name).type) for name in self.fields]  # of numbers and times nothing is odd
        broken = _not_utf8([text for text, is_own in zip(texts, own, strict=True) if is_own])
        if broken is not None:
            texts = [pc.if_else(broken, pa.scalar(None, pa.string()), text) for text in texts]
        empty = [_null_or_empty(text) if is_own else text.is_null() for text, is_own in zip(texts, own, strict=True)]
        missing = empty[0]
        for other in empty[1:]:
            missing = pc.and_(missing, other)
        if broken is not None:
            missing = pc.or_(missing, broken)
        make = functools.cache(lambda: self._record_key(texts))
        return KeyColumns(
            make_record_key=make,
            hash_keys=self._hash_keys(make, texts),
            exceptions=self._exceptions(make, [text for text, is_own in zip(texts, own, strict=True) if is_own]),
            missing=missing if pc.any(missing).as_py() else None,
            ambiguous=None if len(self.fields) == 1 else self._ambiguous(batch, texts),
        )

    def record_keys(self, batch: pa.RecordBatch) -> pa.Array:
        """pa.StringArray[n] of n rows in which `columns` found no missing key: nothing is looked at again."""
        return self._record_key([column_text(batch.column(name)) for name in self.fields])

    def _record_key(self, texts: Sequence[pa.Array]) -> pa.Array:
        return texts[0] if self.form is KeyForm.SIMPLE else self._composite(texts)

    def _composite(self, texts: Sequence[pa.Array]) -> pa.Array:
        parts: list[pa.Array | str] = []
        for position, (name, text) in enumerate(zip(self.fields, texts, strict=True)):
            shown = pc.fill_null(text, NULL_KEY) if text.null_count else text
            is_empty = pc.equal(pc.binary_length(shown), 0)
            if pc.any(is_empty).as_py():
                shown = pc.if_else(is_empty, EMPTY_KEY, shown)
            parts += [f"{',' if position else ''}{name}:", shown]
        return pc.binary_join_element_wise(*parts, "")

    def _ambiguous(self, batch: pa.RecordBatch, texts: Sequence[pa.Array]) -> pa.Array | None:
        """Where a value is a placeholder, or holds what ends it, such as `,b:` before the field b. All other texts are
        read from left to right in one way only, so rows of different values have different keys.
        """
        found: list[pa.Array] = []
        for name, text, after in zip(self.fields, texts, (*self.fields[1:], None), strict=True):
            if has_own_text(batch.column(name).type):
                found.append(pc.is_in(text, value_set=_PLACEHOLDERS))
                found += [] if after is None else [pc.match_substring(text, f",{after}:")]
        found = [mask for mask in found if pc.any(mask).as_py()]
        return functools.reduce(pc.or_kleene, found) if found else None

    def _hash_keys(self, record_key: Callable[[], pa.Array], texts: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        if len(self.fields) == 1:
            # Also for COMPLEX: `id:k1` has no comma, so Hudi hashes the whole text with the name.
            return (record_key(),)
        by_name = dict(zip(self.fields, texts, strict=True))
        return tuple(by_name[name] for name in self.hash_fields)

    def _exceptions(self, record_key: Callable[[], pa.Array], texts: Sequence[pa.Array]) -> dict[int, HashKeys]:
        """Rows that Hudi may read differently, found with vectorised searches; only these are parsed one by one.
        `texts`: of the columns that may hold a comma.
        """
        if len(self.fields) == 1:
            doubtful = pc.match_substring(record_key(), ",")
            if self.form is KeyForm.SIMPLE and pc.any(doubtful).as_py():
                doubtful = pc.and_(doubtful, pc.match_substring(record_key(), f"{self.fields[0]}:"))
        else:
            found = [comma for text in texts if pc.any(comma := pc.match_substring(text, ",")).as_py()]
            if not found:
                return {}
            odd = [pc.match_substring_regex(text, "(?s),.*:") for text in texts]
            doubtful = functools.reduce(pc.or_kleene, odd)
        if not pc.any(doubtful).as_py():
            return {}
        rows = pc.indices_nonzero(pc.fill_null(doubtful, False))  # noqa: FBT003 - Arrow's signature
        keys = record_key().take(rows).to_pylist()
        return {
            row: hash_keys_of_record_key(key, self.hash_fields) for row, key in zip(rows.to_pylist(), keys, strict=True)
        }


def _refuse_bad_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise InvalidKeyRule(f"no {what} field: name at least one column")
    if len(set(names)) != len(names):
        raise InvalidKeyRule(f"{what} fields {list(names)} name a column twice")
    bad = [name for name in names if not name or re.search("[,:]", name)]
    if bad:
        raise InvalidKeyRule(
            f"{what} fields {bad}: Hudi separates names with ',' and ':', so a name can hold neither; rename the column"
        )


def _null_or_empty(text: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(text), 0), True)  # noqa: FBT003 - Arrow's signature


def _not_utf8(texts: Sequence[pa.Array]) -> pa.Array | None:
    """True where a key column holds bytes that are not UTF-8 text (Spark's strings can), so no key can be made; None if
    there are none.
    """
    broken: np.ndarray | None = None
    for text in texts:
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            of_column = np.fromiter(
                (not _is_utf8(value) for value in text.cast(pa.binary()).to_pylist()), np.bool_, len(text)
            )
            broken = of_column if broken is None else broken | of_column
    return None if broken is None else pa.array(broken)


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def hash_keys_of_record_key(record_key: str, hash_fields: Collection[str]) -> tuple[str | None, ...]:
    """The hash keys that Hudi reads from one record key, in the text's order; in a composite, None for `__null__`, ""
    for `__empty__`. A bucket is a function of that text, even if it is ambiguous.

    Rule seen in Hudi 1.2.0 (`KeyGenUtils.extractRecordKeysByFields`, run against it): a text without a comma or without
    a colon is one key. Otherwise it is read as `field:value,field:value`: a value ends at the last comma before the
    first colon that follows a comma. If no hash field is found, the whole text is the key. If the last value is not
    hashed and holds a colon (`id:1,at:10:30` hashed by `id`), Hudi 1.2.0 itself never returns; here the reading ends.
    """
    if "," not in record_key or ":" not in record_key:
        return (record_key,)
    keys: list[str | None] = []
    start = 0
    while (colon := record_key.find(":", start)) >= 0:
        end = _end_of_value(record_key, colon)
        if record_key[start:colon] in hash_fields:
            keys.append(_key_of_text(record_key[colon + 1 : end]))
        start = end + 1
    return tuple(keys) or (record_key,)


def _end_of_value(record_key: str, colon: int) -> int:
    comma = record_key.find(",", colon + 1)
    next_colon = record_key.find(":", comma) if comma >= 0 else -1
    return len(record_key) if next_colon < 0 else record_key.rfind(",", 0, next_colon)


def _key_of_text(text: str) -> str | None:
    if text == NULL_KEY:
        return None
    return "" if text == EMPTY_KEY else text
