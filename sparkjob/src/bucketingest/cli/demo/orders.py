"""Made-up orders for the Kafka demo, and what a table must hold after them. Pure, and the same for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

REGIONS = ("north", "south", "east", "west")
_DELETED_SHARE = 0.02
_NEW_SHARE = 0.4


@dataclass
class Orders:
    """Makes messages and keeps the rows that result from them: order id -> (amount, version)."""

    seed: int = 1
    made: int = 0
    rows: dict[str, tuple[float, int]] = field(default_factory=dict)
    _known: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - made-up rows

    def messages(self, count: int) -> Iterator[tuple[bytes, bytes]]:
        """Key and JSON value of the next messages: new orders, later versions of known ones, and deletes."""
        for _ in range(count):
            yield self._next()

    def _next(self) -> tuple[bytes, bytes]:
        if not self._known or self._random.random() < _NEW_SHARE:
            number, self._known = self._known, self._known + 1
        else:
            number = self._random.randrange(self._known)
        order_id, version = f"order-{number:07d}", self.made
        self.made += 1
        amount = round(self._random.uniform(1, 500), 2)
        deleted = self._random.random() < _DELETED_SHARE
        if deleted:
            self.rows.pop(order_id, None)
        else:
            self.rows[order_id] = (amount, version)
        value = {
            "order_id": order_id,
            "amount": amount,
            "version": version,
            "region": REGIONS[number % len(REGIONS)],
            "deleted": deleted,
        }
        return order_id.encode(), json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of a table held against the rows that must be in it."""

    expected: int
    read: int
    missing: int
    unexpected: int
    different: int

    @property
    def equal(self) -> bool:
        """Whether the table is exactly as it must be."""
        return self.read == self.expected and not (self.missing or self.unexpected or self.different)


def compare(expected: dict[str, tuple[float, int]], read: list[tuple[str, float, int]]) -> Comparison:
    """Hold what was read (id, amount, version; one entry per row) against what must be there."""
    found = {order_id: (amount, version) for order_id, amount, version in read}
    return Comparison(
        expected=len(expected),
        read=len(read),
        missing=len(expected.keys() - found.keys()),
        unexpected=len(found.keys() - expected.keys()),
        different=sum(1 for key in expected.keys() & found.keys() if expected[key] != found[key]),
    )
