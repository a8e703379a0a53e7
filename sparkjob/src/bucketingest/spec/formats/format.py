"""How the value of a Kafka record is decoded into columns."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.kubernetes import SecretReference
from bucketingest.spec.scalars import ALLOWED_KEY, SchemaText, Whole

REGISTRY_URL_WORDS: Final = (
    "the registry's http or https URL without user, query and final slash, such as https://registry:8081"
)
_FULL_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$"


class Registry(SpecModel):
    """A schema registry with Confluent's API: Confluent's own, Karapace, Apicurio's /apis/ccompat/v7."""

    url: str = Field(
        description=(
            "Base URL of the registry's API; what it redirects to is not followed. For Apicurio it ends in "
            "/apis/ccompat/v7."
        ),
        pattern=r"^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~-]+)*$",
        max_length=1024,
        json_schema_extra={ALLOWED_KEY: REGISTRY_URL_WORDS},
    )
    secret_ref: SecretReference | None = Field(
        default=None,
        description=(
            "Secret with what the registry asks for: username and password, or token (a bearer token); and ca.crt, the "
            "certificates to trust instead of the image's."
        ),
    )
    subject: str | None = Field(
        default=None,
        description=(
            "Subject whose newest schema at the first start is the table's, without format.schema. Without it the "
            "subject follows from subjectStrategy."
        ),
        min_length=1,
        max_length=1024,
    )
    subject_strategy: Literal["TopicName", "RecordName", "TopicRecordName"] = Field(
        default="TopicName",
        description=(
            "How producers name the subject: TopicName is TOPIC-value, RecordName the record's full name, "
            "TopicRecordName is TOPIC-RECORD."
        ),
    )
    record_name: str | None = Field(
        default=None,
        description="Full name of the record, such as com.example.Order, for RecordName and TopicRecordName.",
        pattern=_FULL_NAME,
        max_length=512,
        json_schema_extra={ALLOWED_KEY: "a record's full name, such as com.example.Order"},
    )

    def subject_of(self, topic: str | None) -> str | None:
        """The subject of a value's schema; None if it needs a topic and there is none, or more than one."""
        if self.subject is not None:
            return self.subject
        if self.subject_strategy == "RecordName":
            return self.record_name
        if topic is None:
            return None
        return f"{topic}-value" if self.subject_strategy == "TopicName" else f"{topic}-{self.record_name}"


class Envelope(SpecModel):
    """What is around a row in a message: a change event of a database."""

    type: Literal["debezium", "debeziumFlat"] = Field(
        description=(
            "debezium: the row is in before and after. An event of op d deletes its key, all others are upserts, in "
            "the order of the topic's offsets. debeziumFlat: messages are the rows alone, as ExtractNewRecordState "
            "leaves them; one without a value, or with __deleted, deletes its key."
        )
    )
    before: Literal["key", "full"] = Field(
        default="key",
        description=(
            "What is known of a row that is deleted. key: its key. full: each before is complete, as of PostgreSQL "
            "with REPLICA IDENTITY FULL, and of MySQL and MariaDB; then an update deletes its old image too, in "
            "whatever partition that is, and an event without one is a dead letter."
        ),
    )
    truncate: Literal["stop", "delete", "deadLetter"] = Field(
        default="stop",
        description=(
            "What happens if the source's table was truncated. stop: the query ends, before anything of that "
            "micro-batch is written. delete: all older rows are deleted, in one commit with the rows that follow; for "
            "a topic with one partition. deadLetter: it goes on, older rows stay in the table, and the event is a "
            "dead letter."
        ),
    )

    unavailable: Literal["deadLetter", "keep"] = Field(
        default="deadLetter",
        description=(
            "What happens to a value that PostgreSQL did not send because an update did not change it (TOAST). "
            "deadLetter: the event is a dead letter. keep: the table keeps the older value, in STRING columns that "
            "transform.sql selects as they are; in others the event is a dead letter. Immutable."
        ),
    )

    @property
    def flat(self) -> bool:
        """Whether messages are rows without before and after."""
        return self.type == "debeziumFlat"


class Format(SpecModel):
    """How the value of a Kafka record is decoded into columns."""

    type: Literal["json", "avro", "protobuf"] = Field(description="Encoding of the value of a Kafka record.")
    schema_text: SchemaText | None = Field(
        default=None,
        alias="schema",
        description=(
            "For json: the columns as Spark SQL DDL, such as: order_id STRING, amount DECIMAL(10,2). "
            "For avro: the Avro schema of the value, as JSON text. With registry messages are read as this schema, "
            "whatever theirs is. "
            "For protobuf: the descriptor set of the value in Base64, as protoc --include_imports --descriptor_set_out "
            "writes it. "
            "Required without registry; with one, and absent, the columns are those of the subject's newest schema at "
            "the first start, and grow with new fields of messages."
        ),
    )
    message_name: str | None = Field(
        default=None,
        description=(
            "For protobuf: full name of the message, such as com.example.Order. Required with schema; else it is the "
            "first message of the subject's schema."
        ),
        pattern=_FULL_NAME,
        max_length=512,
        json_schema_extra={ALLOWED_KEY: "a message's full name, such as com.example.Order"},
    )
    confluent_schema_id: Whole | None = Field(
        default=None,
        description=(
            "For avro: values begin with the header that Confluent's serializers write (a zero byte, then the schema's "
            "id in 4 bytes). Those with this id are decoded with schema; all others count as undecodable, since no "
            "schema registry is used. Without it and without registry values are plain Avro."
        ),
        ge=0,
        le=2_147_483_647,
    )
    timestamps: Literal["iso", "seconds", "millis", "micros"] = Field(
        default="iso",
        description=(
            "For json: what a number in a TIMESTAMP column counts since 1970. iso: nothing; times are text of ISO "
            "8601, which is read whatever this says, and a message with a number there is a dead letter."
        ),
    )
    unknown_fields: Literal["ignore", "column"] = Field(
        default="ignore",
        description=(
            "For json without registry and envelope: what becomes of a message's members that schema lacks. column: "
            "they are in a last column _rest, as the text of a JSON object; null if there are none."
        ),
    )
    envelope: Envelope | None = Field(
        default=None,
        description=(
            "For json without registry, and for avro with one: messages are change events, and schema has the columns "
            "of the row. source then has a last column __deleted, which transform.sql must select: it is no column of "
            "the table."
        ),
    )
    registry: Registry | None = Field(
        default=None,
        description=(
            "Values begin with Confluent's header. Each Avro value is decoded with the schema that the registry has "
            "for its id; of JSON the id must be that of a JSON Schema; of Protobuf that of a schema with the message."
        ),
    )

    @property
    def follows_registry(self) -> bool:
        """Whether the columns are the fields of the messages' schemas, and become more with them."""
        return self.registry is not None and self.schema_text is None

    @property
    def is_in_avros_terms(self) -> bool:
        """Whether the columns are those of an Avro schema, as a registry's are, whatever the messages' format is."""
        return self.registry is not None and self.columns_text.lstrip().startswith("{")

    @property
    def columns_text(self) -> str:
        """The schema of the columns. That of a subject is known after the registry was asked."""
        assert self.schema_text is not None, "the registry was asked for the schema"
        return self.schema_text
