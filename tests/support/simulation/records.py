"""Hudi's Avro records, read and written without the project's code, by copies of Hudi's own schemas."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import fastavro

_SCHEMAS = pathlib.Path(__file__).parent / "avsc"


@functools.cache
def schema(name: str) -> Any:
    """The parsed schema of this name."""
    return fastavro.parse_schema(json.loads((_SCHEMAS / f"{name}.avsc").read_text("utf-8")))


def container(name: str, record: Mapping[str, Any]) -> bytes:
    """One record as an object container file; equal records give equal bytes."""
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, schema(name), record)
    content = io.BytesIO()
    sync = hashlib.blake2b(datum.getvalue(), digest_size=16).digest()
    fastavro.writer(content, schema(name), [record], sync_marker=sync)
    return content.getvalue()


@functools.lru_cache(maxsize=4096)
def record(content: bytes) -> dict[str, Any]:
    """The one record of an object container file. Not to be changed: it is kept."""
    (found,) = fastavro.reader(io.BytesIO(content))
    assert isinstance(found, dict)
    return found
