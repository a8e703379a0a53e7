"""What the messages of dead letters are now, and the history of their keys since.

A letter must not win over what came later, and a table does not say what came: a deleted row is nowhere. The topic
does. So all messages from the letter on are read again, those of the letters' keys are written, in their order, and the
ordinary path decides which one wins. The result is that of a pipeline that had understood the letter from the
beginning; for a key without later messages it is the letter, for any other what the table has already.

A message that is still in its topic has all later ones of its key behind it, also in a compacted topic: compaction
removes the older ones of a key before the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.kafka.message import OFFSET, VALUE
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.rows import Decoded
from bucketingest.index.record_key import RecordKeyRule
from bucketingest.stream.retry.letters import Place
from bucketingest.stream.source.messages import MessageDecoder, Places, blocks
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.shuffle import rejected_rows


@dataclass(slots=True)
class Judged:
    """What messages of dead letters are now."""

    rows_now: set[Place] = field(default_factory=set)
    """Those that are rows with a place in the table, or no data."""
    keys: list[pa.Array] = field(default_factory=list)
    """Record keys of these rows."""
    refused: dict[Place, str] = field(default_factory=dict)
    """The others, and why."""

    def add(self, messages: Iterable[pa.RecordBatch], of: TopicRange, decoder: MessageDecoder, plan: WritePlan) -> None:
        """Judge messages of one partition, with the columns that the decoder needs and `OFFSET`. Raises RowsInDoubt."""
        decoder = replace(decoder, empties=False)
        for block in blocks(messages, decoder.block_bytes, decoder.block_rows):
            decoded = decoder.decode(block)
            why = {each.number: decoder.detail(each) for each in decoded.refused}
            rows, made_of = decoder.table_rows(decoded.rows)
            numbers = decoded.numbers(block.num_rows)[made_of]
            rows = pa.RecordBatch.from_arrays(rows.columns, schema=plan.schema)
            if (rejected := rejected_rows(rows, plan)) is not None:
                for number, (reason, detail) in zip(numbers[rejected.rows].tolist(), rejected.reasons, strict=True):
                    why.setdefault(number, f"{reason}: {detail}")
            places = [(of.topic, of.partition, offset) for offset in block.column(OFFSET).to_pylist()]
            self.refused |= {places[number]: text for number, text in why.items()}
            self.rows_now.update(place for number, place in enumerate(places) if number not in why)
            good = rows.filter(pa.array(~np.isin(numbers, list(why))))
            self.keys.append(plan.rules.record_key.columns(good).record_key)


def only(batches: Iterable[pa.RecordBatch], letters: Mapping[int, bytes | None]) -> Iterator[pa.RecordBatch]:
    """The messages that are these letters, by offset and value: a topic that was made again has others there."""
    wanted = np.array(list(letters))
    for batch in batches:
        offsets = batch.column(OFFSET).to_numpy()
        at = np.flatnonzero(np.isin(offsets, wanted))
        values = batch.column(VALUE).take(pa.array(at)).to_pylist()
        kept = [number for number, value in zip(at.tolist(), values, strict=True) if value == letters[offsets[number]]]
        if kept:
            yield batch.take(pa.array(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyKeys(MessageDecoder):
    """Decodes as another one, and hands on the rows of some keys. What is no row is a dead letter already."""

    rule: RecordKeyRule
    keys: pa.Array

    @classmethod
    def of(cls, decoder: MessageDecoder, rule: RecordKeyRule, keys: pa.Array) -> Self:
        """As `decoder`, but only these keys."""
        return cls(**{each.name: getattr(decoder, each.name) for each in fields(MessageDecoder)}, rule=rule, keys=keys)

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """As the other decoder, without what it refuses."""
        decoded = MessageDecoder.decode(self, messages)
        return Decoded(decoded.rows, [], decoded.one_by_one, decoded.numbers(messages.num_rows))

    def table_rows(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Places]:
        """The table's rows of the keys."""
        rows, made_of = MessageDecoder.table_rows(self, rows)
        is_wanted = pc.is_in(self.rule.columns(rows).record_key, self.keys)
        return rows.filter(is_wanted), made_of[is_wanted.to_numpy(zero_copy_only=False)]
