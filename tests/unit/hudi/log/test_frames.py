"""Frames of an Avro block's rows: followed in stretches or one by one, they are the same, and so are the errors."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log import frames
from bucketingest.hudi.log.frames import row_frames

START = b'\x02"20260101000000001'


def content_of(rows: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(row)) + row for row in rows)


def rows_of(count: int, seed: int = 1) -> list[bytes]:
    source = random.Random(seed)
    return [START + source.randbytes(source.randrange(60)) for _ in range(count)]


def one_by_one(content: bytes, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]] | str:
    with monkeypatch.context() as patched:
        patched.setattr(frames, "ends_by_stretches", lambda *_: None)
        return found(content, count)


def found(content: bytes, count: int) -> tuple[list[int], list[int]] | str:
    try:
        starts, ends = row_frames(memoryview(content), count, "a block")
    except (CorruptLog, struct.error) as error:  # `decode_block` makes the latter a CorruptLog, too
        return str(error)
    return starts.tolist(), ends.tolist()


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 500, 20_000])
def test_rows_are_found_where_they_are(count: int) -> None:
    rows = rows_of(count)
    starts, ends = row_frames(memoryview(content_of(rows)), count, "a block")
    assert ends.tolist() == np.cumsum([4 + len(row) for row in rows]).tolist()
    assert (ends - starts).tolist() == [len(row) for row in rows]


def test_stretches_are_used_for_many_rows_that_start_alike() -> None:
    content = memoryview(content_of(rows_of(5000)))
    by_stretches = frames.ends_by_stretches(content, 5000)
    assert by_stretches is not None
    assert np.array_equal(by_stretches, frames._ends_one_by_one(content, 5000))


def test_values_that_look_like_the_start_of_a_row_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [START + b"ab" + content_of([START + b"c"]) * 3 for _ in range(5000)]
    content = content_of(rows)
    assert found(content, 5000) == one_by_one(content, 5000, monkeypatch)


def test_rows_that_do_not_start_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [random.Random(each).randbytes(30) for each in range(5000)]
    content = content_of(rows)
    assert found(content, 5000) == one_by_one(content, 5000, monkeypatch)


def test_what_is_wrong_is_found_and_named_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    good = content_of(rows_of(2000))
    source = random.Random(3)
    outcomes = set()
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(source.choice((0, 1, 3))):
            place = source.choice((source.randrange(len(bad)), bad.find(START, source.randrange(len(bad))) - 4))
            bad[place] = source.choice((0, 1, 0x7F, 0x80, 0xFF))
        cut = bytes(bad[: len(bad) - source.choice((0, 0, 1, 4, 5000))])
        count = 2000 + source.choice((0, 0, -1, 1))
        outcome = found(cut, count)
        assert outcome == one_by_one(cut, count, monkeypatch)
        outcomes.add(outcome.rpartition(" ")[2] if isinstance(outcome, str) else "good")
    assert {"good", "missing", "bytes", "rows"} <= outcomes
