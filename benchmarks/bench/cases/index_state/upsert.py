"""Upserts into a table ten times as large by an index with a state, by our bucket index, and by Hudi's indexes."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.comparison import Options, Pair, check_rows
from bench.data import FILE_ROWS, ORDERS, REGIONS, SEED, rows_of, write_input
from bench.results_format import Case
from bench.sides.client import Run, Side, wait_until_quiet
from bench.sides.start import BUCKETS, HEAP, MASTER, Source, Target, start_hudi, start_ours, versions
from bucketingest.hudi.table.table import load_table
from bucketingest.storage import open_storage

_FACTOR: Final = 10
"""The table has so many times the rows of an upsert."""
_NEW: Final = 10
"""One row of so many has a new key."""
_WAKE_UP: Final = 10
"""A side is woken up by an upsert of this part of the rows."""
_FILES_MIN: Final = 4
_LOAD_FILES: Final = 16
"""In a micro-batch of the load: 8M rows make 8 base files of about the default target size."""
_NO_METADATA: Final = {"hoodie.metadata.enable": "false"}
_HUDIS: Final[Mapping[str, Mapping[str, str]]] = {
    "simple": {"hoodie.index.type": "SIMPLE", **_NO_METADATA},
    "bloom": {"hoodie.index.type": "BLOOM", **_NO_METADATA},
    "record": {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
    },
}
"""Their options, by the names of the cases."""
_GLOBAL_HUDIS: Final[Mapping[str, Mapping[str, str]]] = {
    "simple": {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "true",
        **_NO_METADATA,
    },
}
_MOVES: Final = 10
"""With keys that are in one partition of the table only, one row of so many has another partition than its key."""


@dataclass(slots=True)
class _Inputs:
    """Upserts of a table with the keys from 0 on: each has some new keys."""

    folder: Path
    keys: int
    """In the table by now."""
    moves: bool = False
    """Whether some keys come with another partition."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def upsert(self, rows: int) -> Source:
        """The next one, in another folder than the last."""
        number = next(self.numbers)
        chance = np.random.default_rng([SEED, number])
        new = rows // _NEW
        keys = np.concatenate([chance.choice(self.keys, rows - new, replace=False), self.keys + np.arange(new)])
        self.keys += new
        folder = self.folder / f"upsert-{number}"
        folder.mkdir(parents=True)
        size = min(FILE_ROWS, -(-rows // _FILES_MIN))
        for part, start in enumerate(range(0, rows, size)):
            table = rows_of(ORDERS, pa.array(chance.permutation(keys[start : start + size])), number * 1000 + part)
            if self.moves:
                table = _moved(table, chance)
            pq.write_table(table, folder / f"part-{part:05d}.parquet", compression="snappy")
        return Source("files", path=str(folder))


@dataclass(frozen=True, slots=True)
class _Writer:
    """One table and the process that writes it."""

    side: Side
    target: Target
    hudis: bool = False

    def request(self, source: Source, number: int) -> dict[str, Any]:
        """That it upserts the source."""
        return self.target.hudi(source, number) if self.hudis else self.target.ours(source, number)


def state_upsert_cases(name: str, options: Options, *, peer: str) -> Iterator[Case]:
    """Ours, our bucket index, and each index of Hudi's, in turns."""
    yield from _cases(name, options, {index: f"{peer}, {index.upper()}" for index in _HUDIS})


def state_record_cases(name: str, options: Options, *, peer: str) -> Iterator[Case]:
    """The same with the fastest of Hudi's alone: the others take minutes for an upsert into a large table."""
    yield from _cases(name.removesuffix("-record"), options, {"record": f"{peer}, RECORD"})


def state_buckets_cases(name: str, options: Options) -> Iterator[Case]:
    """The same without Hudi."""
    yield from _cases(name.removesuffix("-buckets"), options, {})


def state_global_cases(name: str, options: Options, *, peer: str) -> Iterator[Case]:
    """A table in which a key is in one partition only, ours and Hudi's."""
    peers = {index: f"{peer}, GLOBAL_{index.upper()}" for index in _GLOBAL_HUDIS}
    yield from _cases(name, options, peers, is_global=True)


def _cases(name: str, options: Options, peers: Mapping[str, str], *, is_global: bool = False) -> Iterator[Case]:
    hudis = _GLOBAL_HUDIS if is_global else _HUDIS
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = options.rows
    with contextlib.ExitStack() as running:
        ours = running.enter_context(start_ours(folder))
        writers = {"state": _Writer(ours, Target(folder / "state", ORDERS, state=True, is_global=is_global))}
        if not is_global:
            writers["buckets"] = _Writer(ours, Target(folder / "buckets", ORDERS))
        write_input(ORDERS, folder / "load", rows=rows * _FACTOR, seed=0)
        load = Source("files", path=str(folder / "load"), files_at_once=_LOAD_FILES)
        for writer in writers.values():
            writer.target.folder.mkdir()
            ours.ask(**writer.request(load, 0))
        shutil.rmtree(folder / "load")
        made = writers["state"].target.table
        bases = [file.stat().st_size for file in made.glob("*/*.parquet")]
        options.say(f"  loaded: {rows * _FACTOR:,} rows, {len(bases)} base files, {sum(bases):,} bytes")
        hudi = running.enter_context(start_hudi(folder)) if peers else None
        table_name = load_table(open_storage(str(made))).name
        for index in peers:
            assert hudi is not None, "started for them"
            target = Target(folder / index, ORDERS, extra={**hudis[index], "hoodie.table.name": table_name})
            shutil.copytree(made, target.table, ignore=shutil.ignore_patterns(".bucketingest"))
            writers[index] = _Writer(hudi, target, hudis=True)
        inputs = _Inputs(folder / "input", rows * _FACTOR, moves=is_global)
        ran = versions(ours.ask(op="versions"), {} if hudi is None else hudi.ask(op="versions"))
        what = _what(rows, len(bases), sum(bases), is_global=is_global)
        own = {} if is_global else {"buckets": "our bucket index"}
        # Each repetition takes minutes: what is measured is saved after each, also if the next is cut off.
        for runs, loads in _in_turns(options, inputs, writers):
            for index, title in {**own, **peers}.items():
                pair = Pair(runs["state"], runs[index], loads)
                yield pair.case(f"{name}-{index}", what, rows=rows, peer=title, ran=ran)
    shutil.rmtree(folder)


def _in_turns(
    options: Options, inputs: _Inputs, writers: Mapping[str, _Writer]
) -> Iterator[tuple[Mapping[str, list[Run]], list[float]]]:
    """All runs up to each repetition. Repetition 0 is the warm-up; with a record index it also builds Hudi's metadata
    table.
    """
    runs: dict[str, list[Run]] = {index: [] for index in writers}
    loads: list[float] = []
    for number in range(options.repeats + 1):
        wake_up, source = inputs.upsert(max(_NEW, options.rows // _WAKE_UP)), inputs.upsert(options.rows)
        load = wait_until_quiet(options.load_max, options.wait_seconds_max)
        for index, writer in writers.items():
            writer.side.ask(**writer.request(wake_up, 2 * number + 1))
            run = writer.side.measure(**writer.request(source, 2 * number + 2))
            check_rows(writer.target, inputs.keys)
            counted = "warm-up" if number == 0 else f"run {number}"
            options.say(f"  {counted}, {index}: {run.seconds:.2f} s ({run.cpu_seconds:.1f} s CPU), load {load:.1f}")
            if number:
                runs[index].append(run)
        shutil.rmtree(inputs.folder)
        if number:
            loads.append(round(load, 2))
            yield runs, loads


def _moved(table: pa.Table, chance: np.random.Generator) -> pa.Table:
    """The rows, some of them with the partition after their own."""
    regions = table["region"].to_numpy(zero_copy_only=False).astype(str)
    moves = chance.random(len(regions)) < 1 / _MOVES
    own = np.searchsorted(REGIONS, regions)
    moved = np.array(REGIONS)[(own + moves) % len(REGIONS)]
    return table.set_column(table.schema.get_field_index("region"), "region", pa.array(moved))


def _what(rows: int, files: int, size: int, *, is_global: bool) -> str:
    text = (
        f"Upsert of {rows:,} rows ({ORDERS.name}, Parquet files), a tenth of them with new keys, the others anywhere "
        f"in a merge-on-read table of {rows * _FACTOR:,} rows, 4 partitions and {files} base files of {size / 1e9:.1f} "
        "GB on the local file system, which ours wrote and of which each index of Hudi's got a copy. Ours with a "
        "state: new keys into base files, every setting at its default. "
    )
    if is_global:
        text += (
            "A key is in one partition only (`table.index.global: true`); one row of ten has another partition than "
            "its key, some of these rows are older than the key's. Hudi: GLOBAL_SIMPLE, which updates the partition, "
            "without a metadata table. "
        )
    else:
        text += (
            f"Our bucket index: a table of the same rows, 4 partitions x {BUCKETS} buckets. Hudi: new keys into new "
            "base files, the others into log files; BLOOM and SIMPLE without a metadata table, RECORD "
            "(RECORD_LEVEL_INDEX: a key is identified with its partition, as with ours) with one, which the warm-up "
            "has built. "
        )
    return text + (
        f"Spark {MASTER}, heap {HEAP}, no table services. Measured: from the user's call to the visible commit, in "
        "turns, each after an uncounted upsert of a tenth of the rows; with the state this includes loading the keys "
        "that were new then. After each, hudi-rs must find every key once."
    )
