from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from bucketingest.index.errors import StateDamaged, StateError, StateForeign, StateTooNew
from bucketingest.index.state.runs.run_file import Run, RunWriter
from support.tables.state.runs import TABLE_ID, Contents, entries, hashed, make_run

CONTENTS: Contents = {"b": {"f1": ["k1", "k2"], "f2": ["k3"]}, "a": {"f1": ["k1"]}, "é": {"f3": []}}


def damaged(path: Path, data: bytes) -> Run:
    path.write_bytes(data)
    return Run.open(path, TABLE_ID, digest=path.name)


def resealed(data: bytes) -> bytes:
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def test_a_run_has_its_partitions_with_their_keys(tmp_path: Path) -> None:
    run = make_run(tmp_path, CONTENTS, {"b": 7})
    assert sorted(run.slices) == ["a", "b", "é"]
    assert [(each.generation, each.groups, len(each)) for _, each in sorted(run.slices.items())] == [
        (0, ("f1",), 1),
        (7, ("f1", "f2"), 3),
        (0, ("f3",), 0),
    ]
    assert len(run) == 4
    keys = hashed(["k1", "k2", "k3"])
    assert sorted(run.slices["b"].entries.hashes.tolist()) == sorted(keys.hashes.tolist())
    assert run.size == (tmp_path / run.digest).stat().st_size


def test_the_same_entries_make_the_same_file_in_however_many_parts_they_come(tmp_path: Path) -> None:
    rows = [(number, number, 0) for number in range(10)]
    digests = []
    for size in (10, 3):
        with RunWriter(tmp_path, TABLE_ID) as writer:
            writer.start_slice("p", 1, ["f"])
            for start in range(0, 10, size):
                writer.add(entries(*rows[start : start + size]))
            digests.append(writer.finish()[0])
    assert digests[0] == digests[1]
    assert [path.name for path in tmp_path.iterdir()] == [digests[0]]


def test_entries_and_partitions_out_of_order_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with RunWriter(tmp_path, TABLE_ID) as writer:
        writer.start_slice("p", 0, ["f"])
        writer.add(entries((2, 0, 0)))
        with pytest.raises(ValueError, match="must be sorted"):
            writer.add(entries((1, 0, 0)))
        with pytest.raises(ValueError, match="'a' comes after 'p'"):
            writer.start_slice("a", 0, ["f"])
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_bit_and_every_missing_byte_is_found(tmp_path: Path) -> None:
    run = make_run(tmp_path, CONTENTS)
    data = (tmp_path / run.digest).read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        with pytest.raises(StateError):
            damaged(tmp_path / run.digest, bytes(flipped))
    for length in range(len(data)):
        with pytest.raises(StateDamaged):
            damaged(tmp_path / run.digest, data[:length])
    with pytest.raises(StateDamaged, match=f"take {len(data)} bytes, but it has {len(data) + 1}"):
        damaged(tmp_path / run.digest, data + b"x")
    damaged(tmp_path / run.digest, data)


def test_a_run_under_another_name_of_another_table_or_of_a_newer_version_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path, CONTENTS)
    path = tmp_path / run.digest
    data = path.read_bytes()
    with pytest.raises(StateDamaged, match="under the name of 00"):
        Run.open(path, TABLE_ID, digest="00")
    with pytest.raises(StateForeign, match=f"table {TABLE_ID.hex()}, not of table {bytes(16).hex()}"):
        Run.open(path, bytes(16), digest=run.digest)
    newer = resealed(data[:8] + struct.pack("<I", 2) + data[12:])
    with pytest.raises(StateTooNew, match="has version 2"):
        damaged(path, newer)
