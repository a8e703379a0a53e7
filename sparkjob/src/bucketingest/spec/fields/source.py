"""Where rows come from and how they are decoded and reshaped before they reach the table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.kubernetes import SecretKey, SecretReference
from bucketingest.spec.scalars import ALLOWED_KEY, Column, Location, OptionValue, SchemaText, Sql, Whole, bytes_text

Topic = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._-]+$",
        max_length=249,
        json_schema_extra={ALLOWED_KEY: "a topic name of letters, digits, '.', '_' and '-', at most 249 characters"},
    ),
]


class OptionFrom(SpecModel):
    """Where the value of an option is."""

    secret_key_ref: SecretKey = Field(description="Key of a Secret that has the value.")


class KafkaColumns(SpecModel):
    """Further columns of the source, behind those of the value: what else a message has, each under a name that is
    given here. Without one there is no such column.
    """

    topic: Column | None = Field(default=None, description="STRING: the topic.")
    partition: Column | None = Field(default=None, description="INT: the partition of the topic.")
    offset: Column | None = Field(default=None, description="BIGINT: the offset in the partition.")
    timestamp: Column | None = Field(
        default=None, description="TIMESTAMP, in ms: when it was produced, or appended to the topic, as the topic says."
    )
    key: Column | None = Field(
        default=None, description="STRING: the key as UTF-8 text; a message with another key is a dead letter."
    )
    key_bytes: Column | None = Field(default=None, description="BINARY: the key as it is.")
    headers: Column | None = Field(
        default=None, description="ARRAY<STRUCT<key: STRING, value: BINARY>>: the headers in their order, null if none."
    )

    @property
    def names(self) -> dict[str, str]:
        """The names that are given, by what the columns hold, in the order of the columns."""
        return self.model_dump(by_alias=True, exclude_none=True)


class KafkaSource(SpecModel):
    """Rows from Kafka topics."""

    bootstrap_servers: str = Field(
        description="Kafka brokers to start from: host:port, several separated by commas.",
        pattern=r"^[^\s,]+:[0-9]{1,5}(,[^\s,]+:[0-9]{1,5})*$",
        max_length=4096,
        json_schema_extra={ALLOWED_KEY: "host:port, several separated by commas, without spaces"},
    )
    topics: tuple[Topic, ...] | None = Field(
        default=None,
        description="Topics to read. Exactly one of topics and topicPattern is given.",
        min_length=1,
        max_length=256,
    )
    topic_pattern: str | None = Field(
        default=None,
        description="Java regular expression: every topic whose whole name matches is read, also topics created later.",
        min_length=1,
        max_length=1024,
    )
    starting_offsets: str = Field(
        default="earliest",
        description=(
            "Offsets of the very first start: earliest, latest, or JSON text such as "
            '{"orders":{"0":23,"1":-2}} (-2: earliest, -1: latest). Later starts continue where the timeline ends. '
            "The latest offsets at the very first start are kept next to the table until the first commit."
        ),
        pattern=r"^(earliest|latest|\s*\{[\s\S]*\}\s*)$",
        max_length=65536,
        json_schema_extra={ALLOWED_KEY: 'earliest, latest, or JSON text such as {"orders":{"0":23,"1":-2}}'},
    )
    max_offsets_per_trigger: Whole = Field(
        default=1_000_000,
        description="Most offsets (about: rows), over all topic partitions, that one micro-batch takes.",
        ge=1,
        le=1_000_000_000,
    )
    commit_group: str | None = Field(
        default=None,
        description=(
            "Consumer group whose offsets in Kafka follow the table's commits, for tools that watch the lag of groups. "
            "It belongs to this pipeline alone, and nobody reads in it; the job never takes a position from it."
        ),
        min_length=1,
        max_length=249,
        pattern=r"^[a-zA-Z0-9._-]+$",
        json_schema_extra={ALLOWED_KEY: "letters, digits, '.', '_' and '-'"},
    )
    columns: KafkaColumns | None = Field(
        default=None,
        description="Columns of a message's key, place, time and headers, for transform.sql and the table.",
    )
    options: dict[str, OptionValue] = Field(
        default={},
        description=(
            "Further options handed to Spark's Kafka source as they are, such as failOnDataLoss or "
            "kafka.security.protocol. Options that other fields set, and names that nobody reads, are refused."
        ),
        max_length=64,
    )
    secret_ref: SecretReference | None = Field(
        default=None,
        description=(
            "Secret whose keys are further options of the same kind, such as kafka.sasl.jaas.config; they win over "
            "options."
        ),
    )
    options_from: dict[str, OptionFrom] = Field(
        default={},
        description=(
            "Further options of the same kind whose values are single keys of Secrets, as Strimzi and cert-manager "
            "make them, such as kafka.ssl.keystore.key; they win over secretRef."
        ),
        max_length=64,
    )

    @property
    def named_columns(self) -> dict[str, str]:
        """`columns.names`; empty without."""
        return {} if self.columns is None else self.columns.names

    @property
    def has_secret_options(self) -> bool:
        """Whether options come from Secrets, which a pod mounts."""
        return self.secret_ref is not None or bool(self.options_from)


FileFormat = Literal["parquet", "json", "csv", "avro"]
ChangedFiles = Literal["stop", "readAgain", "ignore"]


class FilesSource(SpecModel):
    """Rows from files that appear in a directory."""

    path: Location = Field(description="Directory to read files from, with the directories below it.")
    format: FileFormat = Field(description="Format of the files.")
    schema_text: SchemaText | None = Field(
        default=None,
        alias="schema",
        description=(
            "Columns of the files as Spark SQL DDL, such as: order_id STRING, amount DECIMAL(10,2). "
            "Required for json and csv; for parquet and avro it is read from the first file when absent."
        ),
    )
    max_files_per_trigger: Whole = Field(
        default=1000, description="Most files that one micro-batch takes.", ge=1, le=1_000_000
    )
    max_bytes_per_trigger: Annotated[int, bytes_text("1Mi", "1Pi")] = Field(
        default=10 * 1024**3,
        description="Most bytes that the files of one micro-batch have. A larger file is a micro-batch of its own.",
    )
    changed: ChangedFiles = Field(
        default="stop",
        description=(
            "What happens when a file that was read has other content. stop: the job ends and names it. readAgain: the "
            "file is read as a whole, as it is now. ignore: its rows stay as they were read."
        ),
    )
    start_after: str | None = Field(
        default=None,
        description=(
            "Path below the directory: only files whose path is behind it are read, in the order of bytes. For "
            "directories where names grow with time."
        ),
        min_length=1,
        max_length=1024,
    )
    options: dict[str, OptionValue] = Field(
        default={},
        description=(
            "How files are read. All formats: pathGlobFilter. json: multiLine, encoding. csv: header, sep, quote, "
            "escape, nullValue, encoding. Spark's other options are refused, each with its reason."
        ),
        max_length=64,
    )


class RateSource(SpecModel):
    """Generated rows for demonstrations: timestamp TIMESTAMP, value BIGINT and, with keys, key BIGINT."""

    rows_per_second: Whole = Field(description="Rows to generate per second.", ge=1, le=10_000_000)
    keys: Whole | None = Field(
        default=None,
        description=(
            "Number of distinct values of an additional column key BIGINT (value modulo keys), so that rows update "
            "earlier ones. Without it every row is new."
        ),
        ge=1,
        le=1_000_000_000_000,
    )


class Source(SpecModel):
    """Where rows come from: exactly one of kafka, files, rate."""

    kafka: KafkaSource | None = Field(default=None, description="Read Kafka topics.")
    files: FilesSource | None = Field(default=None, description="Read files that appear in a directory.")
    rate: RateSource | None = Field(default=None, description="Generate rows, for demonstrations and load tests.")


class Transform(SpecModel):
    """How decoded rows are reshaped."""

    sql: Sql = Field(
        default="SELECT * FROM source",
        description=(
            "One SELECT over the view source that yields the table's columns. Row by row: no aggregation, no join, "
            "no window."
        ),
    )
