"""A topic, the table that it feeds, and retries of its dead letters, without a broker and an engine: the ordinary
decoder, write path and coordinator, on a storage that may die.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import DELETED, EventRules
from bucketingest.decode.kafka.message import MESSAGE
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.rows import Decoded, Refused
from bucketingest.decode.sql.program import Program
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.retry.letters import Asked, places_of
from bucketingest.stream.retry.rounds import Outcome, Retry, retry_all
from bucketingest.stream.source.messages import BlockDecoder, MessageDecoder, pack_messages, refused_messages
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, CoordinatorSettings
from bucketingest.write.dead_letters.writer import write_dead_letters
from bucketingest.write.errors import InstantAborted
from bucketingest.write.instants.source_range import SourceRange, canonical_json, kafka_offsets
from bucketingest.write.open_table import OpenTable, open_table
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow
from bucketingest.write.writer import write_packed
from support.oracle import hudi_rs

TOPIC: Final = "shop.orders"
ODD: Final = b"odd"
"""A message with this word cannot be decoded until it is mended."""
COLUMNS: Final = pa.schema([("id", pa.int64()), ("n", pa.int64())])
TASKS: Final = 2
ALL: Final = Asked()

Message = tuple[bytes | None, bytes | None]


def event(op: str, number: int, n: int = 0, *, odd: bool = False) -> Message:
    """A change event of Debezium and its key; `odd`: one that becomes a dead letter."""
    row = {"id": number, "n": n}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    value = {**images, "source": {"name": ODD.decode() if odd else ""}, "op": op}
    return json.dumps({"id": number}).encode(), json.dumps(value).encode()


@dataclass(frozen=True)
class Unmended:
    """The decoder of before the mend."""

    inner: BlockDecoder

    def decode(self, *columns: Any) -> Decoded:
        decoded = self.inner.decode(*columns)
        odd = {at: "is odd" for at, value in enumerate(columns[0].to_pylist()) if value is not None and ODD in value}
        numbers = decoded.numbers(len(columns[0])).tolist()
        rows = {place: odd[number] for place, number in enumerate(numbers) if number in odd}
        refused = decoded.without(rows, len(columns[0]))
        left = [Refused(number, why) for number, why in odd.items() if number not in numbers]
        return Decoded(refused.rows, [*refused.refused, *left], 0, refused.made_of)


def decoder(*, mended: bool) -> MessageDecoder:
    """Of the topic's events."""
    rules = EventRules(full=False, stops=False, key=("id",))
    blocks = DebeziumDecoder(COLUMNS.append(pa.field(DELETED, pa.bool_())), 1, rules)
    program = Program((), COLUMNS.append(pa.field(DELETE_COLUMN, pa.bool_())))
    by = blocks if mended else Unmended(blocks)
    return MessageDecoder(by, "cannot be decoded", "none", program, decoded=("value", "key"))


@dataclass
class RetriedTable:
    """A table in a folder, its dead letters, and its topic: by partition the messages, None where one is gone."""

    folder: Path
    partitions: int = 1
    definition: TableDefinition = field(default_factory=lambda: TableDefinition("orders", ("id",), (), None, buckets=2))
    topic: list[list[Message | None]] = field(init=False)
    begins: dict[int, int] = field(default_factory=dict)
    """Offsets before which retention has deleted all."""

    def __post_init__(self) -> None:
        self.topic = [[] for _ in range(self.partitions)]
        self.storage, self.letters = (open_storage(str(self.folder / name)) for name in ("orders", "letters"))
        self.pipeline = Pipeline(
            "shop/orders", self.storage.url, self.definition, "", dead_letters_url=self.letters.url, delete_when=DELETED
        )

    def send(self, *messages: Message, partition: int = 0) -> None:
        self.topic[partition] += messages

    def ingest(self) -> None:
        """One commit of all that is new, by a decoder that refuses what is odd."""
        opened, coordinator = self._started(self.storage, self.letters)
        position = coordinator.position
        known = {} if position is None else kafka_offsets(position.end) or {}
        ranges = [
            TopicRange(TOPIC, number, known.get((TOPIC, number), 0), len(messages))
            for number, messages in enumerate(self.topic)
        ]
        start = None if position is None else position.end
        end = canonical_json({TOPIC: {str(each.partition): each.until for each in ranges}})
        written = SourceRange("kafka", start, end, "query", 0 if position is None else position.batch_id + 1)

        def write(assignment: Assignment) -> list[WriteStatus]:
            plan = self.pipeline.plan(opened, assignment, TASKS)
            return self._write(ranges, plan, decoder(mended=False))

        for left in reversed(range(3)):  # with an index with a state the first one finds a partition that is not loaded
            try:
                coordinator.run(written, write)
            except InstantAborted:
                if not left:
                    raise
            else:
                return

    def retry(
        self,
        asked: Asked = ALL,
        *,
        storage: Storage | None = None,
        letters: Storage | None = None,
        dry_run: bool = False,
        mended: bool = True,
        appends: bool = False,
        empties: bool = False,
        raising: Sequence[Exception | None] = (),
        confirm: Callable[[SourceRange], None] = lambda _: None,
    ) -> Outcome:
        """As the command does it; the storages may die. `raising`: what the first rounds meet before the table is
        opened again. `confirm`: asks whether the topics are the same.
        """
        by = replace(decoder(mended=mended), empties=empties)

        def started(raised: list[Exception | None]) -> Retry:
            def decoding(_: object, use: Callable[[MessageDecoder], object]) -> None:
                if (error := raised.pop(0) if raised else None) is not None:
                    raise error
                use(by)

            opened, coordinator = self._started(storage or self.storage, letters or self.letters)
            return Retry(
                self.pipeline,
                opened,
                TASKS,
                coordinator,
                [letters] if letters else places_of(self.pipeline, self.storage),
                {(TOPIC, number): self.begins.get(number, 0) for number in range(self.partitions)},
                self._read,
                lambda ranges, plan, by: self._write(ranges, plan, by, letters=False),
                decoding,
                confirm,
                appends=appends,
            )

        return retry_all(started(list(raising)), lambda _: started([]), asked, dry_run=dry_run)

    def rows(self) -> dict[int, int]:
        """The table's rows as hudi-rs reads them: n by id."""
        return {row["id"]: row["n"] for row in hudi_rs.snapshot(self.folder / "orders").to_pylist()}

    def left(self) -> list[dict[str, Any]]:
        """The dead-letter table as a reader of its directory sees it."""
        files = sorted((self.folder / "letters").glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def _started(self, storage: Storage, letters: Storage) -> tuple[OpenTable, InstantCoordinator]:
        opened = open_table(storage, self.definition, COLUMNS, has_deletes=True)
        coordinator = InstantCoordinator(opened, CoordinatorSettings(self.pipeline.name, TASKS, 0, letters))
        coordinator.start()
        return opened, coordinator

    def _read(self, of: TopicRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        found = [
            {"key": each[0], "value": each[1], "topic": of.topic, "partition": of.partition, "offset": offset}
            for offset, each in enumerate(self.topic[of.partition])
            if each is not None and max(of.start, self.begins.get(of.partition, 0)) <= offset < of.until
        ]
        yield pa.RecordBatch.from_pylist(found, MESSAGE).select(columns)

    def _write(
        self, ranges: Sequence[TopicRange], plan: WritePlan, by: MessageDecoder, *, letters: bool = True
    ) -> list[WriteStatus]:
        packed = [
            each for task, of in enumerate(ranges) for each in pack_messages(self._read(of, by.needs), plan, by, task)
        ]
        statuses = write_packed(packed, plan)
        if letters:
            for task, of in enumerate(ranges):
                refused = refused_messages(self._read(of, tuple(MESSAGE.names)), by, plan)
                for report in write_dead_letters(refused, plan, task):
                    statuses += statuses_from_arrow(pa.Table.from_batches([report]))
        return statuses
