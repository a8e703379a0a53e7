"""Which hash keys Hudi reads from a record key's text. A bucket is a function of that text, even if it is ambiguous.

Rule seen in Hudi 1.2.0 (`KeyGenUtils.extractRecordKeysByFields`, run against it): a text without a comma or without a
colon is one key. Otherwise it is read as `field:value,field:value`: a value ends at the last comma before the first
colon that follows a comma. If no hash field is found, the whole text is the key.

If the last value is not hashed and holds a colon (`id:1,at:10:30` hashed by `id`), Hudi 1.2.0 itself never returns;
here the reading simply ends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

NULL_KEY: Final = "__null__"
EMPTY_KEY: Final = "__empty__"


def hash_keys_of_record_key(record_key: str, hash_fields: Collection[str]) -> tuple[str | None, ...]:
    """The hash keys of one record key, in the text's order; in a composite, None for `__null__`, "" for `__empty__`."""
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
