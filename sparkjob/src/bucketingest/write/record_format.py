"""How what we record beside a table is stored: a line of JSON with its version; then content, if there is any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bucketingest.hudi.errors import InvalidTable
from bucketingest.write.errors import NewerFormat


def encode(version: int, fields: Mapping[str, Any], content: bytes | None = None) -> bytes:
    """As it is stored. `version` counts up whenever an older release would misread the record."""
    if content is None:
        return json.dumps({"version": version, **fields}).encode()
    return json.dumps({"version": version, **fields, "bytes": len(content)}).encode() + b"\n" + content


def decode(data: bytes, where: str, version: int) -> tuple[dict[str, Any], bytes]:
    """The fields, with those that nobody knows, and the content. `version`: the newest that this release knows.

    Raises NewerFormat and InvalidTable.
    """
    line, _, content = data.partition(b"\n")
    with complete(where):
        record: dict[str, Any] = json.loads(line)
        if (newer := record["version"]) > version:
            raise NewerFormat(
                f"{where} was written by a newer release of bucketingest (format {newer}, this release knows "
                f"{version}): run the pipeline and table services with that release"
            )
        if record.get("bytes", 0) != len(content):
            raise ValueError(f"{record.get('bytes', 0)} bytes were written, {len(content)} are there")
    return record, content


@contextmanager
def complete(where: str) -> Iterator[None]:
    """Raise InvalidTable if a field is missing or of another form."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTable(
            f"{where} cannot be read ({type(error).__name__}: {error}): it was changed after it was written. Restore "
            "this object; without it nobody knows which rows are in the table"
        ) from error
