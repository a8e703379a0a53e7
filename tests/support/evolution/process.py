"""A job on a chain of schemas, without Spark: the product's decisions, decoder and write path; its process dies."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import patch

import pyarrow as pa

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.instant import DELTA_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import interface, object_names
from bucketingest.stream.growth import Growth
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import ColumnsChanged, ConflictingAttempt, InstantAborted
from bucketingest.write.instants.commit_content import read_as_of
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows import bucket_writer, shuffle
from support.evolution.chains import Chain, Field, FormatName, next_version
from support.evolution.expected import Expected
from support.evolution.formats import FORMATS, MessageFormat
from support.evolution.hudis_writer import HudisWriter
from support.evolution.reads import Reads, same_rows
from support.evolution.registries import InMemory, Registry
from support.evolution.rows import random_row
from support.oracle import hudi_rs
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.filed_storage import FiledStorage
from support.tables.local_writer import PIPELINE, LocalWriter
from support.tables.other_writers import add_column
from support.tables.services.compactions import compact

DEFINITION = TableDefinition("chain", ("id",), buckets=1)
COMMITS_MAX: Final = 2
"""With so many a new version is visible."""
_REOPENED_MAX = 20
_TRIES_MAX: Final = 40
_CHANGES_MAX = 120
"""A process dies at a change of the table before this one, or at none."""
HUDI_WORKS: Final = 0.02
HUDI_COMPACTS: Final = 0.4
Message = tuple[int, Sequence[Field], dict[str, Any]]


class _Mortal(CrashingStorage):
    """Lists names as its table does."""

    def names(self, directory: str) -> tuple[str, ...]:
        self._before_read()
        return object_names(self._inner, directory)


class Died(BaseException):
    """The process was killed while tasks had written, and the driver did not know it."""


@dataclass
class Played:
    """What became of a chain's messages."""

    messages: int = 0
    letters: int = 0
    """Dead letters."""
    rounded: int = 0
    """Of these a number that its column would round."""
    refused: set[int] = field(default_factory=set)
    """Versions of which each message was one."""
    kills: int = 0
    growths: int = 0
    compactions: int = 0
    versions: int = 0
    """That the registry took."""
    commits: int = 0
    """The most that it took until a new version was visible."""
    beside: int = 0
    """What Hudi's own writer did."""
    reads: Reads | None = None
    """What the table must show at the end."""


@dataclass
class Process:
    """One process after the other on one table, and what the table must have."""

    path: Path
    table: FiledStorage
    chain: Chain
    draw: random.Random
    registry: Registry
    hudi: HudisWriter | None = None
    expected: Expected = field(init=False)
    versions: list[tuple[int, Sequence[Field]]] = field(default_factory=list)
    """That the registry took, with their ids."""
    is_new: bool = True
    """Whether no message of the newest is sent yet."""
    others: int = 0
    columns: ColumnsSchema = field(default_factory=ColumnsSchema)
    played: Played = field(default_factory=Played)
    storage: _Mortal = field(init=False)
    """The table as the process changes it, until it dies."""
    writer: LocalWriter = field(init=False)
    merged: dict[str, dict[str, Any]] | None = field(default_factory=dict)
    """Rows that base files have; None if that is not known."""
    is_merged: bool = False
    """Whether base files are new."""
    commits: list[tuple[str, set[str]]] = field(default_factory=list)
    """Completion times of commits, and the keys whose rows they have."""
    text: str = ""
    """What messages were read as in the newest instant."""
    sent: list[Message] | None = None
    """Of a micro-batch that may not be written yet."""

    def __post_init__(self) -> None:
        self.expected = Expected(self.chain.format)
        assert self.register(0), "there is no version that it could be compatible with"
        self.start()

    @property
    def format(self) -> MessageFormat:
        return FORMATS[self.chain.format]

    def start(self) -> None:
        """A process starts, and dies sooner or later; the last one's micro-batch may be written, by a start too."""
        while True:
            self.columns = ColumnsSchema()
            self.registry.starts()
            dies_at = self.draw.randrange(_CHANGES_MAX) if self.draw.random() < 0.6 else sys.maxsize
            self.storage = _Mortal(self.table, dies_at)
            try:
                self._start()
            except Crash:
                self.played.kills += 1
            else:
                return

    def _start(self) -> None:
        _, newest = self.versions[-1]
        self.columns.text = read_as_of(self.storage, PIPELINE) or self.registry.columns()
        if self.sent is not None and self.columns.text != self.text:
            self.expected.takes_columns(self.sent)
            self.text = self.columns.text
        self.writer = self._open(self.columns.text)
        if self.sent is not None and self._number() > self._sent_as:
            self._is_written(self.expected.takes(self.sent))
        self.expected.starts(newest)

    def survived(self, act: Callable[[], None]) -> None:
        """Another process goes on if this one dies."""
        try:
            act()
        except (Crash, Died):
            self.merged = None
            self.played.kills += 1
            self.start()

    def register(self, place: int) -> bool:
        """A producer has a version, or another one if the registry does not take it; whether it takes any. The next
        micro-batch has messages of it.
        """
        version = self.chain.versions[place]
        draw = random.Random(f"{place} {self.chain}")
        for _ in range(_TRIES_MAX):
            schema_id = self.registry.register(version)
            if schema_id is not None:
                self.versions.append((schema_id, version))
                self.is_new = True
                self.played.versions += 1
                return True
            taken = replace(self.chain, versions=[tuple(each) for _, each in self.versions])
            version = next_version(draw, taken)
        return False

    def micro_batch(self, *, dies: bool) -> None:
        """Messages of random versions, the first of one that is new: rows, dead letters, nothing else. That they are
        visible after so many commits is the bar.
        """
        before = self._commits()
        self.sent, self._sent_as = [self._message() for _ in range(self.draw.randint(1, 6))], self._number()
        while self.sent is not None:
            self.survived(partial(self._write_sent, dies=dies))
            dies = False
        self.check()
        took = self._commits() - before
        assert 1 <= took <= COMMITS_MAX, f"it took {took} commits until messages of all versions were visible"
        self.played.commits = max(self.played.commits, took)

    def _commits(self) -> int:
        return sum(each.action == DELTA_COMMIT for each in Timeline.load(self.table).completed_commits)

    def _write_sent(self, *, dies: bool) -> None:
        assert self.sent is not None, "there are messages"
        refused = self._write(self.sent, dies=dies)
        expected = self.expected.takes(self.sent)
        assert expected == refused, f"dead letters {refused}, not {expected} of {self.sent}; {self.columns.refused}"
        self._is_written(refused)

    def _is_written(self, refused: list[int]) -> None:
        assert self.sent is not None, "there are messages"
        self.text = self.columns.text
        keys = {row["id"] for at, (_, _, row) in enumerate(self.sent) if at not in refused}
        self.commits.append((self._newest(), keys))
        self.played.messages += len(self.sent)
        self.played.letters += len(refused)
        self.played.refused |= self.expected.refused
        self.sent = None

    def _newest(self) -> str:
        newest = Timeline.load(self.table).completed_commits[-1]
        assert newest.completion_time is not None, "it is completed"
        return newest.completion_time

    def check(self) -> None:
        """hudi-rs and the command `query` show what is expected: in one commit, so also what a new version has."""
        rows = self.expected.rows
        same_rows(hudi_rs.snapshot(self.path), rows)
        if self.merged is not None and (self.is_merged or self.draw.random() < 0.2):
            self.is_merged = False
            same_rows(hudi_rs.read_optimized(self.path), self.merged)
        since, changed = self._changed()
        if changed:
            same_rows(hudi_rs.incremental(self.path, since), changed)

    def _changed(self) -> tuple[str, dict[str, dict[str, Any]]]:
        """The time of some commit, and the rows that those after it changed."""
        at = self.draw.randrange(len(self.commits)) if self.commits else 0
        keys = {key for _, keys in self.commits[at + 1 :] for key in keys}
        return self.commits[at][0] if keys else "", {key: self.expected.rows[key] for key in keys}

    def another_writer_adds_a_column(self) -> None:
        def timeline() -> Timeline:
            return Timeline.load(self.table)

        if not timeline().completed_commits:
            return
        self.others += 1
        table = SimpleNamespace(
            storage=self.table,
            timeline=timeline,
            completed=lambda: [path_of(each) for each in timeline().completed_commits],
        )
        add_column(cast(Any, table), f"other{self.others}")

    def compact(self) -> None:
        compact(self.storage)
        self.merged, self.is_merged = dict(self.expected.rows), True
        self.played.compactions += 1

    def hudi_works(self) -> None:
        """Hudi's own writer has its turn: it writes rows again under new keys, or compacts."""
        if self.hudi is None or not self.expected.rows:
            return
        if self.hudi.draw.random() < HUDI_COMPACTS:
            planned = self.hudi.compact(self.path)
            self.is_merged = planned > self._newest()
            if planned:  # it may be a plan of before, whose process died
                self.merged = dict(self.expected.rows) if self.is_merged else None
        else:
            copied = self.hudi.upsert(self.path, sorted(self.expected.rows))
            self.expected.rows |= {key: self.expected.rows[old] for key, old in copied.items()}
            self.table.look()
            self.commits.append((self._newest(), set(copied)))
        self.table.look()
        self.played.beside += 1
        self.check()

    def ended(self) -> Played:
        """All of it is merged and read by each reader; and the bar: of what a registry calls compatible no message is
        a dead letter, but for a number that its column would round.
        """
        self.survived(self.compact)
        self.check()
        same_rows(hudi_rs.by_datafusion(self.path), self.expected.rows)
        self.played.reads = self._last_reads()
        if not self.chain.odd:
            assert not self.played.refused, f"versions {self.played.refused} are dead letters"
            assert self.played.letters == self.expected.rounded
        self.played.rounded = self.expected.rounded
        return self.played

    def _last_reads(self) -> Reads:
        """Of a table that has a log file beside base files, if its messages are not all dead letters."""
        self.micro_batch(dies=False)
        if self.merged is None:
            self.survived(self.compact)
            self.check()
        since, changed = self._changed()
        return Reads(self.path, dict(self.expected.rows), self.merged, since, changed)

    def _number(self) -> int:
        done = self.writer.coordinator.position
        return 0 if done is None else done.batch_id + 1

    def _open(self, text: str) -> LocalWriter:
        columns = columns_of(read_reader(text))
        return LocalWriter(
            self.path, DEFINITION, columns, write_tasks=1, map_tasks=1, storage=self.storage, read_as=text
        )

    def _write(self, messages: Sequence[Message], *, dies: bool = False) -> list[int]:
        growth = Growth(self.columns, lambda text: text, cast(Any, self._open))
        known = self.registry.learn({number for number, _, _ in messages})
        values = pa.array([self.format.message(version, row, number) for number, version, row in messages])
        for _ in range(_REOPENED_MAX):
            asked: SchemaGrown | None = None
            writers = dict(known)
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
            self.merged = None
            self.writer.coordinator.give_up("columns become more")
            self.writer = cast(Any, growth.starter(asked, threading.Event()))
            self.played.growths += 1
        raise AssertionError("columns become more without an end")

    def _commit(self, rows: pa.Table, *, dies: bool) -> None:
        coordinator = self.writer.coordinator
        done = coordinator.position
        number = self._number()
        start = None if done is None else done.end
        found = SourceRange("checkpoint", start, str(number), query_id=PIPELINE, batch_id=number)

        def write(assignment: Assignment) -> Any:
            statuses = self.writer.write(rows, assignment)
            if dies:
                raise Died
            return statuses

        coordinator.run(found, write)

    def _message(self) -> Message:
        number = self.draw.randrange(len(self.versions))
        schema_id, version = self.versions[-1 if self.is_new else number]
        self.is_new = False
        return schema_id, version, random_row(self.draw, self.chain.format, version, self.draw.choice("uvwxyz"))


def played(
    path: Path, seed: int, format_: FormatName, registry: Registry | None = None, hudi: HudisWriter | None = None
) -> Played:
    """A chain from its first version to its last, with crashes, compactions and other writers between. `registry`: a
    real one, which says itself what is compatible. `hudi`: has its turns.
    """
    draw = random.Random(f"evolution {seed}")
    table = FiledStorage(path)
    with (
        patch.object(bucket_writer, "open_storage", lambda *_: table),
        patch.object(shuffle, "open_storage", lambda *_: table),
        patch.object(
            interface, "NamingStorage", (FiledStorage, _Mortal)
        ),  # to look at each method takes as long as a read
    ):
        registry = registry or InMemory(FORMATS[format_])
        return _played(Process(path, table, Chain.of(seed, format_), draw, registry, hudi))


def _played(process: Process) -> Played:
    draw = process.draw
    for place in range(len(process.chain.versions)):
        if place:
            process.register(place)
        for _ in range(draw.randint(1, 3)):
            process.micro_batch(dies=draw.random() < 0.1)
            if draw.random() < 0.15:
                process.survived(process.compact)
                process.check()
            if draw.random() < 0.1:
                process.merged = None
                process.start()
            if process.hudi is not None and process.hudi.draw.random() < HUDI_WORKS:
                process.hudi_works()
            if draw.random() < 0.07:
                process.another_writer_adds_a_column()  # hudi-rs may need the next micro-batch to read that
    return process.ended()
