"""A job on a chain of schemas, without Spark: the product's decisions, decoder and write path; its process dies."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage
from bucketingest.stream.growth import Growth, first_taken
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import ColumnsChanged, ConflictingAttempt, InstantAborted
from bucketingest.write.instants.source_range import SourceRange
from support.evolution.chains import Chain, Field, FormatName
from support.evolution.expected import Expected, same
from support.evolution.formats import FORMATS, MessageFormat
from support.oracle import hudi_rs
from support.tables.local_writer import PIPELINE, LocalWriter
from support.tables.other_writers import add_column
from support.tables.services.compactions import compact

DEFINITION = TableDefinition("chain", ("id",), buckets=1)
_REOPENED_MAX = 20
_ABSENT = ("plain", "record")
"""Shapes of which Protobuf has none; of others it has nothing inside."""


class Died(Exception):
    """The process was killed."""


@dataclass
class Process:
    """One process after the other on one table, and what the table must have."""

    path: Path
    chain: Chain
    draw: random.Random
    expected: Expected = field(init=False)
    registered: int = 1
    others: int = 0
    columns: ColumnsSchema = field(default_factory=ColumnsSchema)
    ids: set[int] = field(default_factory=set)
    writer: LocalWriter = field(init=False)

    def __post_init__(self) -> None:
        self.expected = Expected(self.chain.format)
        self.start()

    @property
    def format(self) -> MessageFormat:
        return FORMATS[self.chain.format]

    def start(self) -> None:
        self.columns, self.ids = ColumnsSchema(), set()
        texts = [self.format.reader(self.chain.versions[number]) for number in reversed(range(self.registered))]

        def take(text: str) -> LocalWriter:
            self.columns.text = text
            return self._open(text)

        self.writer = first_taken((partial(str, text) for text in texts), take)
        versions = {number + 1: self.chain.versions[number] for number in range(self.registered)}
        taken = self.expected.starts(versions)
        assert self.columns.text == texts[self.registered - taken], f"a start takes version {taken}"

    def micro_batch(self, *, dies: bool = False) -> None:
        """Messages of random versions: rows, dead letters, nothing else."""
        messages = [self._message() for _ in range(self.draw.randint(1, 6))]
        if dies:
            try:
                self._write(messages, dies=True)
            except Died:
                self.start()  # columns come with a commit: it left none
        refused = self._write(messages)
        assert self.expected.takes(messages) == refused, f"dead letters of {messages}"
        self.check()

    def check(self) -> None:
        """hudi-rs shows what is expected."""
        table = hudi_rs.snapshot(self.path)
        found = {row["id"]: row for row in table.to_pylist()}
        assert found.keys() == self.expected.rows.keys()
        assert table.num_rows == len(found)
        for key, row in self.expected.rows.items():
            values = {
                name: each for name, each in found[key].items() if name != "id" and not name.startswith("_hoodie")
            }
            assert same(values, row), f"{key}: {values}, not {row}"

    def another_writer_adds_a_column(self) -> None:
        storage = open_storage(str(self.path))

        def timeline() -> Timeline:
            return Timeline.load(storage)

        if not timeline().completed_commits:
            return
        self.others += 1
        table = SimpleNamespace(
            storage=storage,
            timeline=timeline,
            completed=lambda: [path_of(each) for each in timeline().completed_commits],
        )
        add_column(cast(Any, table), f"other{self.others}")

    def compact(self) -> None:
        compact(open_storage(str(self.path)))

    def _open(self, text: str) -> LocalWriter:
        return LocalWriter(self.path, DEFINITION, columns_of(read_reader(text)), write_tasks=1, map_tasks=1)

    def _write(
        self, messages: Sequence[tuple[int, Sequence[Field], dict[str, Any]]], *, dies: bool = False
    ) -> list[int]:
        growth = Growth(self.columns, lambda text: text, cast(Any, self._open))
        self.ids |= {number for number, _, _ in messages}
        values = pa.array([self.format.message(version, row, number) for number, version, row in messages])
        for _ in range(_REOPENED_MAX):
            asked: SchemaGrown | None = None
            writers = {each: WriterSchema(self.format.text(self.chain.versions[each - 1])) for each in self.ids}
            try:
                self.columns.cover(writers, self.format.decoder(self.columns.text, {}).columns_in)
                writers |= {each: WriterSchema(why_not=why) for each, why in self.columns.refused.items()}
                decoded = self.format.decoder(self.columns.text, writers).decode(values)
                self._commit(pa.Table.from_batches([decoded.rows]), dies=dies)
                return [each.number for each in decoded.refused]
            except SchemaGrown as grown:
                asked = grown
            except (InstantAborted, ConflictingAttempt):
                continue  # written again in a new instant
            except ColumnsChanged:
                pass
            self.writer.coordinator.give_up("columns become more")
            self.writer = cast(Any, growth.starter(asked, threading.Event()))
        raise AssertionError("columns become more without an end")

    def _commit(self, rows: pa.Table, *, dies: bool) -> None:
        coordinator = self.writer.coordinator
        done = coordinator.position
        number = 0 if done is None else done.batch_id + 1
        start = None if done is None else done.end
        found = SourceRange("checkpoint", start, str(number), query_id=PIPELINE, batch_id=number)

        def write(assignment: Assignment) -> Any:
            statuses = self.writer.write(rows, assignment)
            if dies:
                raise Died
            return statuses

        coordinator.run(found, write)

    def _message(self) -> tuple[int, Sequence[Field], dict[str, Any]]:
        number = self.draw.randrange(self.registered)
        version = self.chain.versions[number]
        row = {each.name: self._value(each) for each in version}
        return number + 1, version, {"id": self.draw.choice("uvwxyz"), **row}

    def _value(self, of: Field) -> Any:
        if of.nullable and self.draw.random() < 0.2 and (self.chain.format != "protobuf" or of.shape in _ABSENT):
            return None
        match of.shape:
            case "plain":
                return self._of_kind(of.kind)
            case "record":
                return {each: self._of_kind(of.kind) for each in of.inside}
            case "array":
                return [{each: self._of_kind(of.kind) for each in of.inside} for _ in range(self.draw.randint(0, 2))]
            case "map":
                return {key: self._of_kind(of.kind) for key in "kl"[: self.draw.randint(0, 2)]}
        return [self._of_kind("time")]

    def _of_kind(self, kind: str) -> Any:
        number = self.draw.randrange(10**6)
        return {
            "int": self.draw.choice((number, -(2**31), 2**24 + 1)),
            "long": self.draw.choice((number, 2**60, 2**60 + 1)),
            "float": self.draw.choice((0.1, 0.5, -1e30)),
            "double": self.draw.choice((0.1, number / 7)),
            "string": f"s{number}",
            "boolean": bool(number % 2),
            "date": date(1970, 1, 1) + timedelta(days=number % 20000),
            "time": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number),
            "decimal": Decimal(number).scaleb(-2),
            "enum": self.draw.choice(("ON", "OFF")),
            "bytes": str(number).encode(),
        }[kind]


def played(path: Path, seed: int, format_: FormatName) -> Process:
    """A chain from its first version to its last, with crashes, compactions and other writers between."""
    draw = random.Random(f"evolution {seed}")
    process = Process(path, Chain.of(seed, format_), draw)
    while True:
        for _ in range(draw.randint(1, 3)):
            process.micro_batch(dies=draw.random() < 0.15)
            if draw.random() < 0.15:
                process.compact()
                process.check()
            if draw.random() < 0.1:
                process.start()
            if draw.random() < 0.07:
                process.another_writer_adds_a_column()
        if process.registered == len(process.chain.versions):
            return process
        process.registered += 1
