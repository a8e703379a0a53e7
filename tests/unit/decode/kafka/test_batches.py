"""Batches of messages have the same messages, however these come."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bucketingest.decode.kafka import reader
from bucketingest.decode.kafka.message import KEY, VALUE

ROWS, BYTES = 10, 100


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_ROWS", ROWS)
    monkeypatch.setattr(reader, "BATCH_BYTES", BYTES)


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_ends_with_its_last_row_or_with_the_message_that_fills_it(seed: int) -> None:
    chance = random.Random(seed)
    longest = chance.choice([1, 20, 250])
    values = [chance.choice([None, b"x" * chance.randrange(longest)]) for _ in range(200)]
    keys = [b"%d" % at for at in range(len(values))]
    found = [batches_of(values, keys, chance.choice([1, 3, 10, 37, 500])) for _ in range(4)]
    assert all(each == found[0] for each in found)
    assert [row for batch in found[0] for row in batch] == list(zip(values, keys, strict=True))
    for batch in found[0][:-1]:
        sizes = [len(value or b"") for value, _ in batch]
        assert sum(sizes[:-1]) < BYTES
        assert len(batch) == ROWS or sum(sizes) >= BYTES


def batches_of(values: list[bytes | None], keys: list[bytes], piece: int) -> list[list[tuple[bytes | None, bytes]]]:
    pieces: Iterator[reader.Piece] = (
        [values[at : at + piece], keys[at : at + piece]] for at in range(0, len(values), piece)
    )
    batches = reader._batches(pieces, (VALUE, KEY))
    return [list(zip(*batch.to_pydict().values(), strict=True)) for batch in batches]
