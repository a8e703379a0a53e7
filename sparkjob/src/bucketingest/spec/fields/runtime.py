"""How a pipeline runs: when it commits, what it does with bad rows, when it counts as unhealthy, when it
is audited.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.source import OptionFrom, Topic
from bucketingest.spec.scalars import ALLOWED_KEY, Column, Location, Whole, duration_text, trigger_text


class Commit(SpecModel):
    """When input is read and when it becomes visible."""

    mode: Literal["interval", "checkpoint"] = Field(
        default="interval",
        description=(
            "interval: an instant spans micro-batches and is committed every interval, so the number of commits does "
            "not follow the trigger. checkpoint: one instant per micro-batch."
        ),
    )
    interval: Annotated[timedelta, duration_text("200ms", "1h")] = Field(
        default=timedelta(seconds=30),
        description="Time between commits in mode interval; 200ms to 1h. Must not be shorter than trigger.",
    )
    trigger: Annotated[timedelta | Literal["once"], trigger_text("1h")] = Field(
        default=timedelta(seconds=2),
        description=(
            "Time between starts of micro-batches, up to 1h. 0s: as fast as it can. once: ingest all input, then stop. "
            "In mode interval micro-batches from Kafka start later, as long as the commit is in time: fewer of them "
            "make fewer files."
        ),
    )
    max_files: Whole = Field(
        default=100_000,
        description=(
            "Files that an instant may have in mode interval; with so many it is committed before its interval has "
            "passed. A micro-batch writes one file for each file group that it has rows for."
        ),
        ge=1,
        le=1_000_000,
    )
    at: Literal["any", "transaction"] = Field(
        default="any",
        description=(
            "Between which messages a commit may be. any: between any two. transaction: between transactions of the "
            "database, so that readers see each as a whole; for topics of Debezium with one partition each, one or "
            "with tables, read from the earliest offset on."
        ),
    )
    transaction_topic: Topic | None = Field(
        default=None,
        description=(
            "With at transaction: the topic in which Debezium says where transactions end. The topic's name up to its "
            "first dot, and .transaction, when absent; with tables it is required."
        ),
    )
    transaction_wait: Annotated[timedelta, duration_text("1s", "24h")] = Field(
        default=timedelta(minutes=10),
        description=(
            "With at transaction: so long no message may come of a transaction that has not ended. Then the job ends "
            "with TransactionIncomplete, and waits again after its restart."
        ),
    )
    max_retries: Whole = Field(
        default=5,
        description="How often a commit is tried again after a storage error, with backoff, before the attempt fails.",
        ge=0,
        le=100,
    )


class SchemaEvolution(SpecModel):
    """What becomes of new schemas of a registry that messages are written with."""

    mode: Literal["follow", "additive", "off"] = Field(
        default="follow",
        description=(
            "For format.registry without format.schema. follow: new fields become columns, and columns get wider "
            "types. additive: new fields become columns, but no column gets a wider type. off: the table keeps its "
            "columns, also at a start; new fields are not read. With additive and off, messages with a wider type are "
            "dead letters if the column cannot have their values. A new table has the columns of the newest schema."
        ),
    )


class Errors(SpecModel):
    """What happens to a row that cannot be decoded or has no record key."""

    mode: Literal["deadLetter", "fail"] = Field(
        default="deadLetter",
        description="deadLetter: the row goes to the dead-letter table. fail: the pipeline stops. No row is dropped.",
    )
    unreadable_schema: Literal["deadLetter", "stop"] = Field(
        default="deadLetter",
        alias="schema",
        description=(
            "What happens if the schema of messages, by their id in a registry, cannot be read as the table's. "
            "deadLetter: all its messages are dead letters. stop: the query ends before anything of that micro-batch "
            "is written."
        ),
    )
    dead_letter_path: Location | None = Field(
        default=None,
        description=(
            "Base path of the dead-letter table; the table's path with _dead_letters, or with tables ~dead_letters, at "
            "its end when absent. Only with mode deadLetter, never inside a table."
        ),
    )


class Checkpoint(SpecModel):
    """Where Spark keeps its checkpoint. It may be lost: the position is in the table's timeline."""

    path: Location | None = Field(
        default=None,
        description=(
            "Directory for Spark's checkpoint; the table's path with _checkpoints/NAME at its end when absent, or "
            "/var/lib/bucketingest/checkpoints/NAMESPACE/NAME for a table in an object store. A source of files needs "
            "none. Never inside the table."
        ),
    )


class Health(SpecModel):
    """When a running pipeline counts as unhealthy."""

    max_commit_lag: Annotated[timedelta, duration_text("1s", "168h")] = Field(
        default=timedelta(minutes=5),
        description="Longest time without a commit while there is input. Longer than commit.interval in mode interval.",
    )
    max_inflight_age: Annotated[timedelta, duration_text("1s", "168h")] = Field(
        default=timedelta(minutes=10),
        description=(
            "Age at which an inflight instant counts as stuck and is rolled back. Longer than commit.interval in mode "
            "interval."
        ),
    )


class MaintenanceWindow(SpecModel):
    """A time of the week."""

    days: tuple[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], ...] = Field(
        default=(), description="Days on which it opens; every day when empty.", max_length=7
    )
    start: str = Field(
        description="When it opens, by the clock of the time zone, such as 02:30.",
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
        max_length=5,
        json_schema_extra={ALLOWED_KEY: "a time of day from 00:00 to 23:59"},
    )
    duration: Annotated[timedelta, duration_text("5m", "24h")] = Field(
        description="How long it is open, also beyond midnight."
    )
    time_zone: str = Field(
        default="UTC",
        description="Name of the time zone in the IANA's list, such as Europe/Berlin.",
        pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$",
        max_length=64,
        json_schema_extra={ALLOWED_KEY: "the name of a time zone, such as Europe/Berlin"},
    )


class Restart(SpecModel):
    """When the operator gives up restarting, or waiting for a node."""

    max_failures: Whole = Field(
        default=10,
        description="Failed attempts within window after which the pipeline is Stalled and is not started again.",
        ge=1,
        le=1000,
    )
    window: Annotated[timedelta, duration_text("1m", "168h")] = Field(
        default=timedelta(hours=1), description="Time over which failed attempts are counted."
    )
    unreachable_after: Annotated[timedelta, duration_text("1m", "168h")] | None = Field(
        default=None,
        description=(
            "A driver pod that should have ended so long ago, and whose node does not report its end, counts as lost: "
            "it is deleted by force, and the next attempt starts. Its process may still run; the table's lease and "
            "fences keep it from committing. Default: the operator waits until the node reports, or is removed."
        ),
    )
    maintenance_windows: tuple[MaintenanceWindow, ...] = Field(
        default=(),
        description=(
            "When a driver that works may be restarted for what nobody changed in this resource: another default "
            "image. Edits, annotations and repairs never wait. At any time when empty."
        ),
        max_length=16,
    )


class Upgrade(SpecModel):
    """How a changed spec is taken over."""

    probation: Annotated[timedelta, duration_text("0s", "168h")] = Field(
        default=timedelta(minutes=10),
        description=(
            "Time for the driver of a changed spec to make its first commit while there is input, beside "
            "commit.interval and commit.trigger. If it makes none, the last spec that committed runs again. 0s: off."
        ),
    )
    preflight: bool = Field(
        default=True,
        description=(
            "Check a changed spec before the driver that runs is stopped for it: a pod with the new image and spec "
            "looks at storage, source, schema registry and SQL, and writes nothing. If a check fails, the driver runs "
            "on with the previous spec. false: off."
        ),
    )


class Slo(SpecModel):
    """What the pipeline promises to readers; used for metrics and alerts, and by compaction."""

    commit_latency: Annotated[timedelta, duration_text("1s", "168h")] = Field(
        default=timedelta(seconds=60),
        description=(
            "A commit is good if its instant is completed within this time of its request, with its first rows. Longer "
            "than commit.interval in mode interval."
        ),
    )
    freshness: Annotated[timedelta, duration_text("1s", "168h")] | None = Field(
        default=None,
        description=(
            "Longest time for which readers may wait for available input: while there is input, the last commit is "
            "at most this old. Without it no alert on freshness. Longer than commit.interval in mode interval."
        ),
    )
    read_optimized_freshness: Annotated[timedelta, duration_text("1m", "1h")] | None = Field(
        default=None,
        description=(
            "Longest time for which readers of base files alone (Trino, ClickHouse, NAME_ro) lack a committed row; 1m "
            "to 1h, and at least twice commit.interval in mode interval. The job then compacts each file group with "
            "new rows when three quarters of it are over, and for no other reason: logAge, logFiles and logPercent of "
            "services.compaction do not count."
        ),
    )

    def log_age(self, chosen: timedelta) -> timedelta:
        """Age at which a log file makes its file group due. A promise to readers of base files replaces the one that is
        chosen in `services.compaction`; the last quarter of it is for the merge.
        """
        promise = self.read_optimized_freshness
        return chosen if promise is None else promise * 3 / 4


class Audit(SpecModel):
    """A Job of the operator that runs `bucketingest audit` each time that the window opens."""

    against: str = Field(
        description="The database: postgres://USER@HOST:PORT/DATABASE, with parameters of libpq such as "
        "?sslmode=verify-full. Never a password.",
        pattern=r"^postgres(ql)?://([^:/?#@\s]+@)?[^@\s]+$",
        max_length=1024,
        json_schema_extra={ALLOWED_KEY: "postgres://USER@HOST/DATABASE, without a password"},
    )
    password_from: OptionFrom | None = Field(
        default=None, description="Where the password is; only the Job reads it. Absent: the server wants none."
    )
    window: MaintenanceWindow = Field(
        description="When it may begin. There is one result in each window; what ends without one is tried again, four "
        "times in all. It is ended when it has run for the duration."
    )
    table: str | None = Field(
        default=None,
        description="The database's table as SCHEMA.TABLE; as the topic's name ends when absent.",
        pattern=r"^[^.\s]+\.[^.\s]+$",
        max_length=256,
        json_schema_extra={ALLOWED_KEY: "SCHEMA.TABLE"},
    )
    columns: tuple[Column, ...] = Field(
        default=(), description="Columns to compare beside the key; all that both have when empty.", max_length=256
    )
    pause: Annotated[timedelta, duration_text("0s", "10m")] = Field(
        default=timedelta(), description="Time between two statements, which spares the database; 0s to 10m."
    )
    statement_timeout: Annotated[timedelta, duration_text("1s", "24h")] = Field(
        default=timedelta(minutes=1), description="Longest time of a statement; 1s to 24h."
    )
    settle: Annotated[timedelta, duration_text("1m", "24h")] = Field(
        default=timedelta(minutes=2),
        description="How long a change may take from the database into the table; 1m to 24h. Only what differs for "
        "longer is reported, and only if no input waited for longer meanwhile.",
    )
