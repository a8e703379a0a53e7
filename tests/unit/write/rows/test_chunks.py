"""Chunks: their rows, their size, and that no chunk is in memory twice."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest

from bucketingest.index.placing import SPAN_BUCKETS
from bucketingest.write.rows import chunks
from bucketingest.write.rows.chunks import chunks_of
from bucketingest.write.rows.shuffle import pack
from support.tables.write_plans import SCHEMA, batch, definition, packed, row, write_plan

TINY = 4 * 400
"""A budget whose chunk share holds a few rows only."""


class Endless(chunks.ChunkSize):
    """All rows are one chunk."""

    def __init__(self) -> None:
        super().__init__(2**40)
        self.bytes = self.bytes_max


def test_a_small_budget_makes_small_chunks() -> None:
    plan = write_plan(memory_bytes=TINY)
    batches = [batch([row(f"k{n}")]) for n in range(60)]
    sizes = [sum(message["row_count"] for message in sent.to_pylist()) for sent in pack(batches, plan, 0)]
    assert sum(sizes) == 60
    assert max(sizes) * batches[0].nbytes <= TINY / 8 + batches[0].nbytes


def test_chunks_are_as_large_as_many_spans_need_for_full_messages() -> None:
    plan = write_plan(definition(buckets=512 * SPAN_BUCKETS), tasks=1, memory_bytes=256 * 1024**2)
    rows = pa.array([f"{'x' * 300}{n * 7_654_321:x}" for n in range(1000)])
    columns = {"id": rows, "region": pa.repeat("eu", 1000), "amount": pa.nulls(1000), "at": pa.repeat(0, 1000)}
    source = pa.table(columns).cast(SCHEMA).to_batches()
    sent = packed([source * 120], plan)  # 40 MiB: a chunk of 32, and the rest
    assert sum(sent["row_count"].to_pylist()) == 120_000
    assert sent.num_rows < 512 * 5


def test_a_chunk_is_let_go_before_the_next_one_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    packed_before: list[weakref.ref[pa.RecordBatch]] = []

    def chunks_watched(*_: object) -> Iterator[pa.RecordBatch]:
        for number in range(3):
            assert not any(chunk() for chunk in packed_before)
            chunk = batch([row(f"k{number}")])
            packed_before.append(weakref.ref(chunk))
            yield chunk
            del chunk

    monkeypatch.setattr("bucketingest.write.rows.shuffle.chunks_of", chunks_watched)
    assert sum(sent.num_rows for sent in pack([], write_plan(), 0)) == 3
    assert len(packed_before) == 3


def test_a_chunk_has_the_rows_of_its_batches_in_their_order_and_in_the_stored_types() -> None:
    plan = write_plan(memory_bytes=64 * 1024**2)
    wide = SCHEMA.set(2, pa.field("amount", pa.int16())).append(pa.field("more", pa.int8()))
    batches = [batch([row(f"k{n}", amount=n) | {"more": 1}], wide) for n in range(5)]
    nothing = batch([], SCHEMA)
    (chunk,) = chunks_of([nothing, *batches[:3], nothing, *batches[3:]], plan, Endless())
    assert chunk.schema == plan.schema
    assert chunk.column("amount").to_pylist() == list(range(5))
    assert not list(chunks_of([nothing], plan, Endless()))


@pytest.mark.parametrize("piece_bytes", [1, 700])
def test_a_chunk_of_many_pieces_is_the_same(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES_MIN", piece_bytes)
    plan = write_plan()
    rows = batch([row(None if n % 7 == 0 else f"k{n}", amount=n) for n in range(60)])
    halves = [part for start in range(0, 60, 12) for part in (rows.slice(start, 5), rows.slice(start + 5, 7))]
    (chunk,) = chunks_of(halves, plan, Endless())
    assert chunk == rows.cast(plan.schema)
