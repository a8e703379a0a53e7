"""The columns of the messages' keys."""

from __future__ import annotations

import pytest

from bucketingest.stream.source.key_columns import key_names


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (b'{"id":1}', ("id",)),
        (b'{"b":1,"a":"x"}', ("b", "a")),
        (b'{"schema":{"type":"struct"},"payload":{"id":1,"n":2}}', ("id", "n")),
        (b'{"schema":1}', ("schema",)),
        (b"1", ()),
        (b"\x00\x00\x00\x00\x01\x02", ()),
        (b"\xff", ()),
    ],
)
def test_the_columns_of_a_key(key: bytes, names: tuple[str, ...]) -> None:
    assert key_names(key) == names
