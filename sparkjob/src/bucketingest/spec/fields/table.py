"""The Hudi table that a pipeline writes, and which of its fields can never change."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.partition_pattern import PATTERN_MAX
from bucketingest.spec.scalars import ALLOWED_KEY, Column, Flag, Location, OptionValue, Whole, bytes_text, duration_text

MAX_BUCKETS: Final = 99_999_999
"""A file id carries the bucket as 8 digits."""
TABLE_NAME_MAX: Final = 128
DEFAULT_BUCKETS: Final = 64
DEFAULT_TARGET_FILE_SIZE: Final = 128 * 1024**2

IMMUTABLE_TABLE_FIELDS: Final = (
    "path",
    "name",
    "pipeline",
    "recordKey",
    "partitionBy",
    "hiveStylePartitioning",
    "orderingField",
    "version",
)
IMMUTABLE_INDEX_FIELDS: Final = ("type", "buckets", "hashFields", "hash", "global")


class PartitionBuckets(SpecModel):
    """A bucket count for some of the partitions to come."""

    pattern: str = Field(
        description=r"Regular expression that is searched for in the partition path, such as ^2027-. Only what Hudi's "
        r"Java reads alike: text, ., ^, $, [a-z], \d \w \s, ( ), |, ? * + {3}; a comma is \x2C.",
        min_length=1,
        max_length=PATTERN_MAX,
        pattern=r"^[^,;]*$",
        json_schema_extra={ALLOWED_KEY: "a regular expression without a comma and a semicolon, such as ^2027-"},
    )
    buckets: Whole = Field(description="Buckets of each such partition.", ge=1, le=MAX_BUCKETS)


class Index(SpecModel):
    """How a row finds its file group. Fixed for the life of a partition."""

    type: Literal["bucket", "state"] = Field(
        default="bucket",
        description="Kind of index. bucket: a hash of the key names the file group, nothing is looked up. state: each "
        "key is looked up in a state that is loaded from the table's files, and new keys get new file groups: for "
        "partitions of any size, also beside Hudi's writers with a SIMPLE or BLOOM index. Immutable.",
    )
    buckets: Whole = Field(
        default=DEFAULT_BUCKETS,
        description=(
            "Buckets per partition: each is one file group, written by one task at a time. Immutable: another count "
            "would put known keys into other file groups; for partitions to come see partitionBuckets."
        ),
        ge=1,
        le=MAX_BUCKETS,
    )
    partition_buckets: tuple[PartitionBuckets, ...] | None = Field(
        default=None,
        description=(
            "Bucket counts of partitions to come: the first whose pattern is found in the partition path wins, else "
            "buckets. Partitions that exist keep their count, whatever changes here. Hudi's own writers (1.1 and "
            "later) follow the same rules. When absent the table's own rules stay; [] ends them."
        ),
        max_length=64,
    )
    hash_fields: tuple[Column, ...] | None = Field(
        default=None,
        description="Columns of the record key that are hashed; all of them when absent. Immutable.",
        min_length=1,
        max_length=16,
    )
    hash: Literal["hudi", "murmur3"] = Field(
        default="hudi",
        description=(
            "Hash of the key. hudi: Hudi's own, so that Hudi's writers can upsert too. murmur3: for tables that only "
            "bucketingest writes. Immutable."
        ),
    )
    target_file_size: Annotated[int, bytes_text("1Mi", "4Gi")] | None = Field(
        default=None,
        description="With type state: bytes that a base file of new keys should have at most; 128Mi when absent. More "
        "keys of one commit go into more file groups.",
    )
    inserts: Literal["base", "log"] | None = Field(
        default=None,
        description="With type state: where new keys are written. base (when absent): into base files of new file "
        "groups, where Hudi's BLOOM and SIMPLE indexes find them; each micro-batch is a commit. log: into log files, "
        "also of file groups that have room; a commit takes commit.interval. Before a Hudi writer with such an index"
        " writes to it, run bucketingest handover: it does not find keys in log files, and writes them twice.",
    )
    is_global: Flag | None = Field(
        default=None,
        alias="global",
        description="With type state and inserts base: a key is in one partition of the table only. A newer row with "
        "another partition moves it: its old row is deleted. When false or absent, a key may have a row in each "
        "partition. Immutable.",
    )
    on_duplicate_keys: Literal["fail", "report"] | None = Field(
        default=None,
        description="With type state: what happens if another writer put a key into two file groups of a partition. "
        "fail (when absent): the job ends and names some. report: it logs them, and writes to the newer file group.",
    )


class TableLock(SpecModel):
    """Two things: a lease, by which a job holds its table from start to stop, and Hudi's lock, held for moments."""

    provider: Literal["auto", "storage", "fileSystem", "none"] = Field(
        default="auto",
        description=(
            "The lock of Hudi's writers that work on the table at the same time, in optimistic or non-blocking "
            "concurrency mode. storage: StorageBasedLockProvider, on object stores. fileSystem: "
            "FileSystemBasedLockProvider with its default path, on local file systems. none: no Hudi writer works at "
            "the same time. auto: what the table's property hoodie.write.lock.provider names; without it storage on "
            "object stores and none on file systems."
        ),
    )
    wait_timeout: Annotated[timedelta, duration_text("1s", "1h")] = Field(
        default=timedelta(minutes=1),
        description=(
            "Longest wait for Hudi's lock before a step, such as a commit, fails. Longer than leaseValidity, so that a "
            "lock left by a crash expires first."
        ),
    )
    lease_validity: Annotated[timedelta, duration_text("10s", "10m")] = Field(
        default=timedelta(seconds=30),
        description=(
            "After this time without renewal a job counts as dead, and others may take its table and lock. It gives "
            "both up itself after two thirds of that. Clocks of machines must agree within 2s."
        ),
    )
    on_held: Literal["wait", "exit"] = Field(
        default="wait",
        description=(
            "What a job does at its start when another one holds the table. wait: up to heldTimeout, then exit. exit: "
            "immediately, with the holder's name."
        ),
    )
    held_timeout: Annotated[timedelta, duration_text("1s", "24h")] = Field(
        default=timedelta(minutes=2),
        description=(
            "Longest wait with onHeld wait. Longer than leaseValidity, so that the table of a crashed job is taken "
            "over."
        ),
    )


class Table(SpecModel):
    """The Hudi merge-on-read table. It is created when it does not exist."""

    path: Location = Field(
        description=(
            "Base path of the table: an absolute local path or a URL with the scheme file, s3, s3a, gs, abfss or az; "
            "no slash at its end. Immutable."
        )
    )
    name: str | None = Field(
        default=None,
        description="Name of the table in its properties; the resource's name with _ for - when absent, with tables "
        "the topic with _ for all that is no letter and no digit. Immutable.",
        pattern=r"^([A-Za-z_]|\{topic\})([A-Za-z0-9_]|\{topic\})*$",
        max_length=TABLE_NAME_MAX,
        json_schema_extra={ALLOWED_KEY: "a name of letters, digits and _, not starting with a digit"},
    )
    pipeline: str | None = Field(
        default=None,
        description="Name under which the table keeps the position in its source; namespace/name of the resource when "
        "absent, with tables namespace/name.{topic}. A table that moves to another resource keeps the name it had. "
        "Immutable.",
        pattern=r"^[A-Za-z0-9_]([A-Za-z0-9._/-]|\{topic\})*$",
        min_length=1,
        max_length=400,
        json_schema_extra={ALLOWED_KEY: "a name of letters, digits, '.', '_', '-' and '/'"},
    )
    record_key: tuple[Column, ...] | None = Field(
        default=None,
        description="Columns that identify a row: an incoming row replaces the row with equal values. Text, integers, "
        "DECIMAL, DATE, TIMESTAMP, BOOLEAN. Without it every message is a further row, once; then "
        "source.kafka.columns names topic, partition and offset, which identify it. With format.envelope it is the "
        "key of the messages: the existing table's, else that of the registry, else that of the first message. "
        "Immutable.",
        min_length=1,
        max_length=16,
    )
    partition_by: tuple[Column, ...] = Field(
        default=(),
        description="Columns whose values make the partition path, in this order. Text, integers, DECIMAL, DATE, "
        "BOOLEAN; for a TIMESTAMP take date(...) in transform.sql. Immutable.",
        max_length=8,
    )
    hive_style_partitioning: Flag = Field(
        default=False, description="Name partition directories column=value instead of value. Immutable."
    )
    ordering_field: Column | None = Field(
        default=None,
        description=(
            "Column that decides between rows of equal key: the larger value wins, the later row among equals. "
            "Without it the later row wins. A delete with the value 0 of an INT or SMALLINT, or 1970-01-01, is a dead "
            "letter: to Hudi's readers it has no value, and deletes newer rows too. Immutable."
        ),
    )
    delete_when: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="SQL predicate over the table's columns: a row for which it is true deletes its key."
    )
    version: Literal[8, 9] = Field(
        default=9,
        description="Hudi table version. 9: Hudi 1.1 and later. 8: also read by Hudi 1.0. Immutable.",
    )
    index: Index = Field(default=Index(), description="How a row finds its file group.")
    log_block: Literal["parquet", "avro"] | None = Field(
        default=None,
        description="Encoding of the data blocks in log files. parquet takes about a third of the bytes; Spark opens a "
        "small avro block three times as fast. When absent avro for blocks of less than 64 KiB, parquet for others; "
        "but always avro if orderingField is text, which Hudi 1.2.0's Spark reader compares wrongly in Parquet, and "
        "always parquet if a TIMESTAMP is inside a STRUCT, ARRAY or MAP, which hudi-rs 0.5.0 cannot read in Avro.",
    )
    metadata_table: Literal["refuse", "drop"] | None = Field(
        default=None,
        description="What happens if Hudi's metadata table is on, which hides commits of a writer that does not write "
        "it. refuse (when absent): the job ends. drop: it is switched off and deleted, to take a table over from a "
        "writer of Hudi's; that writer must stop, or set hoodie.metadata.enable=false.",
    )
    memory_per_task: Annotated[int, bytes_text("16Mi", "64Gi")] = Field(
        default=256 * 1024**2,
        description="Memory in bytes that one write task may use to buffer rows before it flushes log blocks.",
    )
    write_tasks: Whole | None = Field(
        default=None,
        description="Tasks that write in parallel; the session's parallelism when absent.",
        ge=1,
        le=100_000,
    )
    lock: TableLock = Field(
        default=TableLock(), description="How the table is kept from other jobs and Hudi's own writers."
    )
    properties: dict[str, OptionValue] = Field(
        default={},
        description=(
            "Further hoodie.* properties of a table that is created. Those that describe what bucketingest itself "
            "decides (hoodie.table.*, hoodie.index.*, merge mode, ...) are refused."
        ),
        max_length=64,
    )
