"""Topics as Debezium 3.6 wrote them: of PostgreSQL 15 (REPLICA IDENTITY DEFAULT) and MariaDB 10.11, JSON without the
part `schema`, with `skipped.operations=none`. Long texts are cut.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa

Stream = Literal[
    "mariadb.orders",
    "mariadb.schema-changes",
    "mariadb.transaction",
    "postgres.orders",
    "postgres.toast",
    "postgres.transaction",
    "postgres.without-key",
]
_PLACE: Final = Path(__file__).parent / "debezium"


def records_of(name: Stream) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of each record in the order of the topic's one partition."""
    records = [json.loads(line) for line in (_PLACE / f"{name}.jsonl").read_text().splitlines()]
    return [(_bytes(each["key"]), _bytes(each["value"])) for each in records]


def values_of(name: Stream) -> pa.BinaryArray:
    """The values alone."""
    return pa.array([value for _, value in records_of(name)], pa.binary())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
