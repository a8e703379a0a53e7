"""From the source's rows to the table's rows, for a resource and for a user's own DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import EventRules
from bucketingest.decode.debezium.heads import with_heads_apart
from bucketingest.decode.debezium.registered import RegisteredDebeziumDecoder
from bucketingest.decode.decoder_choice import Way, has_sql, sql_refused, way_of
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.json.rest import RestDecoder
from bucketingest.decode.json.times import MICROS_OF
from bucketingest.decode.kafka.columns import ClashingColumns, MessageColumns
from bucketingest.decode.kafka.message import KEY, VALUE
from bucketingest.decode.kafka.reading_choice import Reading, reading_of
from bucketingest.decode.message_columns import UnusableColumns, columns_of
from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.registered import RegisteredProtobufDecoder
from bucketingest.decode.registered.wire_format import RegisteredDecoder
from bucketingest.decode.sql.program import Program
from bucketingest.spec.formats.format import Format
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import InvalidTransform
from bucketingest.stream.source.decoding import (
    NO_VALUE,
    Decoded,
    decode_by,
    header_of,
    mark_deletes,
    problem_of,
    transform,
)
from bucketingest.stream.source.messages import (
    BLOCK_BYTES_OF_EVENTS,
    BLOCK_ROWS_OF_SCHEMAS,
    BlockDecoder,
    MessageDecoder,
)
from bucketingest.stream.source.spark_plan import NotOnArrow, read_program
from bucketingest.stream.source.traced import NOW, ROW_BY_ROW, analyzed, below, is_traced, numbers_of, traced
from bucketingest.write.plan import DELETE_COLUMN


@dataclass(frozen=True, slots=True)
class Answers:
    """What is the same for all tables whose rows are made alike, and takes Spark some time to say."""

    schema: pa.Schema
    is_repeatable: bool
    settings: Mapping[str, str]
    """Of the session."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """How rows are decoded and reshaped."""

    resource: BucketIngest | None
    """None: the rows already have the table's columns."""
    delete_when: str | None
    program: Program | None = None
    """The SQL, if it is evaluated on Arrow."""
    refused: str | None = None
    """Why it is not, if Spark's plan of it says so."""
    columns: pa.Schema | None = None
    """What Spark makes of the source's columns, once it was asked: that takes a plan each time."""
    keeps: frozenset[str] = frozenset()
    """Columns that may have the placeholder of a value that was not sent."""
    unused: frozenset[str] = frozenset()
    """Columns of the source that the SQL does not look at."""
    is_traced: bool = False
    """Whether each row that Spark makes is made of one message, and is the same each time."""
    answers: Answers | None = None
    """What Spark says of it, if it was asked."""

    def answered(self, rows: DataFrame) -> RowShape:
        """As `planned`, asking Spark all there is to ask. Raises InvalidTransform."""
        shape = self.planned(rows)
        settings = dict(rows.sparkSession.sparkContext.getConf().getAll())
        return replace(shape, answers=Answers(shape.schema(rows), shape.is_repeatable(rows), settings))

    def planned(self, rows: DataFrame) -> RowShape:
        """The same, knowing whether Spark's plan of the SQL can be evaluated on Arrow. `rows`: any of the
        source's; they are not read. Raises InvalidTransform.
        """
        shape = self._with_uses(rows)
        if self.resource is None or (self._has_no_messages and way_of(self.resource).name == "spark"):
            return shape
        shape = replace(shape, columns=self._columns(rows))
        if not has_sql(self.resource):
            return shape
        shaped = self.table_rows(self.decoded(rows).all())
        if not self._has_no_messages:
            shape = replace(shape, is_traced=is_traced(shaped, self._sql))
        if way_of(self.resource).name == "spark":
            return shape
        try:
            return replace(shape, program=read_program(shaped, self._source_columns(rows)))
        except NotOnArrow as error:
            return replace(shape, refused=str(error))

    def _with_uses(self, rows: DataFrame) -> RowShape:
        """The same, knowing which columns may lack a value that was not sent."""
        if self.resource is None or self._event_rules is None:
            return self
        kept, unused = uses_of(self.table_rows(self.decoded(rows).all()))
        kept = kept.difference(self.resource.record_key) if self.resource.keeps_unavailable else frozenset()
        return replace(self, keeps=kept, unused=unused)

    def decoded(self, rows: DataFrame, decoder: MessageDecoder | None = None) -> Decoded:
        """The rows, with the undecodable ones marked. `decoder`: for messages whose schemas a registry has; without it
        the rows are not to be read.
        """
        if self.resource is None:
            return Decoded(rows, can_fail=False)
        if self._has_no_messages:
            return Decoded(rows, can_fail=False)
        return decode_by(rows, self._source_columns(rows), decoder or self.message_decoder(self._blocks(rows)))

    @property
    def _sql(self) -> tuple[str, ...]:
        transform = () if self.resource is None else (self.resource.spec.transform.sql,)
        return (*transform, self.delete_when or "")

    @property
    def on_arrow(self) -> bool:
        """Whether our decoder's rows need no Spark to be the table's."""
        if self.resource is None or way_of(self.resource).name == "spark":
            return False
        return self.program is not None or not has_sql(self.resource)

    @property
    def has_registry(self) -> bool:
        """Whether a registry has the schemas of the messages."""
        return (
            self.resource is not None
            and self.resource.spec.format is not None
            and (self.resource.spec.format.registry is not None)
        )

    @property
    def _event_rules(self) -> EventRules | None:
        """Of an envelope; None: messages are the rows."""
        envelope = None
        if self.resource is not None and self.resource.spec.format is not None:
            envelope = self.resource.spec.format.envelope
        if self.resource is None or envelope is None:
            return None
        return EventRules(
            envelope.before == "full",
            envelope.truncate == "stop",
            self.resource.record_key,
            envelope.flat,
            self.keeps,
            self.unused,
        )

    def _blocks(self, rows: DataFrame) -> BlockDecoder:
        """What decodes messages; with a registry it knows no schema yet."""
        if self.has_registry:
            return self.registered_blocks(rows)
        format_, columns = self._format, self._columns(rows)
        if format_.type == "json":
            unit = MICROS_OF[format_.timestamps]
            rules = self._event_rules
            if format_.unknown_fields == "column":
                return RestDecoder(columns, unit)
            return JsonDecoder(columns, unit) if rules is None else DebeziumDecoder(columns, unit, rules)
        if format_.type == "protobuf":
            return ProtobufDecoder(read_message(format_.columns_text, format_.message_name), columns)
        return AvroDecoder(format_.columns_text, columns, header_of(format_))

    def registered_blocks(self, rows: DataFrame) -> RegisteredDecoder:
        """What decodes messages of a registry's schemas, and knows none of them yet. Raises InvalidTransform if the
        columns cannot be those of messages.
        """
        format_, columns = self._format, self._columns(rows)
        text = format_.columns_text
        if format_.type == "json":
            unit = MICROS_OF[format_.timestamps]
            return RegisteredJsonDecoder(columns, {}, unit, text if format_.is_in_avros_terms else "")
        if format_.type == "protobuf":
            name = format_.message_name
            if format_.is_in_avros_terms:
                return RegisteredProtobufDecoder(name or "", columns, {}, text)
            return RegisteredProtobufDecoder(read_message(text, name), columns, {})
        if (rules := self._event_rules) is not None:
            return RegisteredDebeziumDecoder(text, columns, {}, rules)
        return RegisteredAvroDecoder(text, columns, {})

    def message_decoder(self, blocks: BlockDecoder) -> MessageDecoder:
        """With the words for dead letters."""
        problem = problem_of(self._format)
        plain = MessageDecoder(blocks, problem, NO_VALUE, self.program, self._message_columns)
        if self.has_registry:
            plain = replace(plain, block_rows=BLOCK_ROWS_OF_SCHEMAS)
        if self._event_rules is None:
            return plain
        shorten = with_heads_apart if isinstance(blocks, DebeziumDecoder) else None
        envelope = self._format.envelope
        empties = envelope is not None and envelope.truncate == "delete"
        return replace(plain, decoded=(VALUE, KEY), block_bytes=BLOCK_BYTES_OF_EVENTS, empties=empties, shorten=shorten)

    def way(self) -> Way:
        """Whether messages are decoded on Arrow or by Spark, and why. Nothing is read."""
        if self.resource is None:
            return Way("spark", "rows come from a query of the user's own")
        way = way_of(self.resource)
        if self.refused is not None:
            return sql_refused(self.resource, self.refused)
        return way

    def decoder(self, rows: DataFrame) -> MessageDecoder | None:
        """What makes the table's rows of messages without Spark; None if its SQL is Spark's, or a registry has the
        schemas.
        """
        if self.resource is None or self.has_registry or self._has_no_messages or self.way().name == "spark":
            return None
        return self.message_decoder(self._blocks(rows))

    def reading(self, rows: DataFrame) -> Reading | None:
        """Who reads Kafka's messages; None if Spark decodes them, and so reads them, or there are none."""
        if self.resource is None or not self.on_arrow or self.way().name == "spark":
            return None
        known = self.answers
        settings = dict(rows.sparkSession.sparkContext.getConf().getAll()) if known is None else known.settings
        return reading_of(self.resource, settings)

    @property
    def _has_no_messages(self) -> bool:
        return self.resource is not None and self.resource.spec.format is None

    @property
    def _format(self) -> Format:
        assert self.resource is not None, "a user's own query has no messages"
        assert self.resource.spec.format is not None, "what is decoded on Arrow has a format"
        return self.resource.spec.format

    def _columns(self, rows: DataFrame) -> pa.Schema:
        """Arrow schema of the decoded columns. Raises InvalidTransform."""
        assert self.resource is not None, "a user's own query has no messages"
        if self.columns is not None:
            return self.columns
        if self.resource.spec.format is None:
            return pa.schema(list(to_arrow_schema(rows.schema, timezone="UTC")))
        try:
            return columns_of(self.resource.spec.format)
        except UnusableColumns as error:
            raise InvalidTransform(f"spec.format.schema {error}") from error

    @property
    def _message_columns(self) -> MessageColumns:
        kafka = None if self.resource is None else self.resource.spec.source.kafka
        return MessageColumns({} if kafka is None else kafka.named_columns)

    def _source_columns(self, rows: DataFrame) -> pa.Schema:
        """Arrow schema of the view `source`: the decoded columns, and what else messages have. Raises
        InvalidTransform.
        """
        try:
            return self._message_columns.behind(self._columns(rows))
        except ClashingColumns as error:
            raise InvalidTransform(f"spec.format.schema {error}") from error

    def table_rows(self, good: DataFrame) -> DataFrame:
        """The table's columns and, with a predicate, the delete column."""
        if self.resource is not None:
            good = transform(good, self.resource.spec.transform.sql)
        return mark_deletes(good, self.delete_when, enveloped=self._event_rules is not None)

    def is_repeatable(self, rows: DataFrame) -> bool:
        """Whether the same input gives the same rows each time; not so with rand() or a UDF that says so."""
        if self.answers is not None:
            return self.answers.is_repeatable
        shaped = self.table_rows(self.decoded(rows).all())  # the filter for good rows would count as not so
        if not rows.isStreaming and any(map(NOW.search, self._sql)):  # a stream's micro-batch has a time of its own
            return False
        return bool(analyzed(shaped).deterministic())

    def traced(self, decoded: Decoded) -> DataFrame:
        """The table's rows of the good ones and, as the last column, the message of each, if `is_traced`."""
        return traced(decoded, self.table_rows)

    def schema(self, rows: DataFrame) -> pa.Schema:
        """Arrow schema of the table's columns; nothing is read. Timestamps are in UTC. Raises InvalidTransform, also if
        messages are appended and the SQL may make several rows of one.
        """
        if self.answers is not None:
            return self.answers.schema
        shaped = self.table_rows(self.decoded(rows).good())
        if self.resource is not None and self.resource.spec.table.record_key is None:
            key = self.resource.record_key
            if (why := why_not_appended(shaped, key)) is not None:
                raise InvalidTransform(f"spec.transform.sql {why}: without table.recordKey the key is {', '.join(key)}")
        schema = to_arrow_schema(shaped.schema, timezone="UTC")
        return pa.schema([field for field in schema if field.name != DELETE_COLUMN])


def why_not_appended(shaped: DataFrame, key: Sequence[str]) -> str | None:
    """What speaks against it, in words that follow "spec.transform.sql"; None if nothing does. Nothing is read."""
    plan = analyzed(shaped)
    name, inner = below(plan, ROW_BY_ROW)
    if name != "View":
        return f"has the operator {name}, and of a message only SELECT and WHERE surely make one row at most"
    kept = numbers_of(inner)
    for column, number in numbers_of(plan).items():
        if column in key and kept.get(column) != number:
            return f"makes {column} itself, which says which message a row is"
    return None


def uses_of(shaped: DataFrame) -> tuple[frozenset[str], frozenset[str]]:
    """The source's columns that the SQL hands on under their names, and looks at nowhere: no value of them decides
    anything; and those that it does not even hand on. Nothing is read.
    """
    plan = inner = analyzed(shaped)
    seen = set[int]()
    while (name := str(inner.getClass().getSimpleName())) in ROW_BY_ROW:
        for each in map(inner.expressions().apply, range(inner.expressions().size())):
            if str(each.getClass().getSimpleName()) != "AttributeReference":
                used = each.references().toSeq()
                seen.update(int(used.apply(at).exprId().id()) for at in range(used.size()))
        inner = inner.children().apply(0)
    if name != "View":
        return frozenset(), frozenset()
    made = numbers_of(plan)
    unseen = {each: number for each, number in numbers_of(inner).items() if number not in seen}
    kept = {each for each, number in unseen.items() if made.get(each) == number}
    return frozenset(kept), frozenset(each for each, number in unseen.items() if number not in made.values())
