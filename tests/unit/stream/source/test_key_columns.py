"""The columns of the messages' keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketingest.registry.lookups import Patience
from bucketingest.spec.errors import SpecError
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import KeyUnknown
from bucketingest.stream.source import key_columns
from bucketingest.stream.source.key_columns import key_names, with_record_key


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


@pytest.mark.parametrize(("first", "error"), [(None, KeyUnknown), (b"1", SpecError)])
def test_who_is_to_name_the_key_is_told_that_the_field_cannot_be_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bytes | None, error: type[Exception]
) -> None:
    monkeypatch.setattr(key_columns, "first_key", lambda *_: first)
    spec = {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["t"]}},
        "format": {"type": "json", "schema": "id INT", "envelope": {"type": "debezium"}},
        "table": {"path": str(tmp_path / "t")},
    }
    resource = BucketIngest.from_document(
        {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "t"}, "spec": spec}
    )
    session: Any = None  # what asks Spark is replaced
    with pytest.raises(error, match="it is immutable: delete the BucketIngest and make it again"):
        with_record_key(resource, session, None, Patience(seconds=0))
