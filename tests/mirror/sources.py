"""The table that is mirrored, in two databases: what it is made of, how it is changed, what it has now."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import psycopg
import pyarrow as pa
import pymysql
from typing_extensions import override

from devservers.mirror.databases import Database, MariaDB, Postgres

MIRRORED: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("grp", pa.string()),
        ("n", pa.decimal128(14, 3)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("whole", pa.int64()),
        ("big", pa.string()),
        ("extra", pa.string()),
    ]
)
"""The columns of the table here. The last one is not there in the database from the beginning."""
DDL: Final = (
    "id BIGINT, grp STRING, n DECIMAL(14,3), d DATE, t TIMESTAMP, f DOUBLE, whole BIGINT, big STRING, extra STRING"
)
Value = int | float | str | dt.date | dt.datetime | None
Statement = tuple[str, tuple[Value, ...]]


class Source(ABC):
    """One table `orders`, and its connection, which another thread must not use."""

    prefix: ClassVar[str]
    topic: ClassVar[str]
    other_topics: ClassVar[tuple[str, ...]]
    settings: ClassVar[dict[str, str]]
    """Of Debezium."""
    envelope: ClassVar[dict[str, str]]
    table: ClassVar[dict[str, Any]]
    """Of the BucketIngest."""
    create: ClassVar[tuple[str, ...]]
    alter: ClassVar[tuple[str, ...]]
    """Statements that change the table while it is mirrored, one after the other."""
    upsert: ClassVar[str]
    """One row with `id` and `grp`."""
    or_whole: ClassVar[str]
    """End of an INSERT: of rows that are there, `whole` is set."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._altered = 0
        self._snapshots = 0
        for statement in self.create:
            self.run([(statement, ())])

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    @abstractmethod
    def run(self, transaction: Sequence[Statement], *, commits: bool = True) -> None:
        """Run statements as one transaction. What breaks a constraint undoes all of it."""

    @abstractmethod
    def _query(self, sql: str) -> list[tuple[Any, ...]]: ...

    def alter_once(self) -> bool:
        """The next change of the table's columns; False if all are made."""
        if self._altered == len(self.alter):
            return False
        self.run([(self.alter[self._altered], ())])
        self._altered += 1
        return True

    @property
    def has_extra(self) -> bool:
        """Whether the last column is there."""
        return self._altered > 0

    def snapshot_again(self) -> None:
        """Ask Debezium for all rows again, while it goes on."""
        self._snapshots += 1
        collection = self.settings["debezium.source.table.include.list"].split(",")[0]
        wish = f'{{"type": "incremental", "data-collections": ["{collection}"]}}'
        statement = "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)"
        self.run([(statement, (f"again {self._snapshots}", wish))])

    def rows(self) -> pa.Table:
        """All rows, as the table here should have them."""
        names = MIRRORED.names if self.has_extra else MIRRORED.names[:-1]
        found = self._query(f"SELECT {', '.join(names)} FROM orders")
        rows = [dict(zip(names, row, strict=True)) for row in found]
        for row in rows:
            if row["t"] is not None and row["t"].tzinfo is None:
                row["t"] = row["t"].replace(tzinfo=dt.UTC)
        return pa.Table.from_pylist(rows, MIRRORED)


class PostgresSource(Source):
    """Only keys are known of deleted rows, and long values are sent only when they change."""

    prefix = "pg"
    topic = "pg.public.orders"
    other_topics = ("pg.public.signals", "pg.transaction")
    settings: ClassVar = {
        "debezium.source.table.include.list": "public.orders,public.signals",
        "debezium.source.signal.data.collection": "public.signals",
        "debezium.source.decimal.handling.mode": "string",
        "debezium.source.provide.transaction.metadata": "true",
    }
    envelope: ClassVar = {"type": "debezium", "unavailable": "keep"}
    table: ClassVar = {"index": {"type": "state"}}
    create = (
        "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data TEXT)",
        """CREATE TABLE orders (id BIGINT PRIMARY KEY, grp TEXT NOT NULL, n NUMERIC(14,3) NOT NULL DEFAULT 0, d DATE,
        t TIMESTAMPTZ, f DOUBLE PRECISION, whole INT, big TEXT)""",
        "ALTER TABLE orders ALTER COLUMN big SET STORAGE EXTERNAL",
    )
    alter = ("ALTER TABLE orders ADD COLUMN extra TEXT", "ALTER TABLE orders ALTER COLUMN whole TYPE BIGINT")
    upsert = "INSERT INTO orders (id, grp) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET grp = excluded.grp"
    or_whole = "ON CONFLICT (id) DO UPDATE SET whole = excluded.whole"

    def __init__(self, database: Postgres) -> None:
        self._connection = psycopg.connect(database.url)
        super().__init__(database)

    @override
    def close(self) -> None:
        self._connection.close()

    @override
    def run(self, transaction: Sequence[Statement], *, commits: bool = True) -> None:
        try:
            for sql, values in transaction:
                self._connection.execute(sql.encode(), values or None)
            self._connection.commit() if commits else self._connection.rollback()
        except psycopg.errors.UniqueViolation:
            self._connection.rollback()

    @override
    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        found = self._connection.execute(sql.encode()).fetchall()
        self._connection.commit()
        return found


class MariaDBSource(Source):
    """Whole rows are known, and move between partitions."""

    prefix = "my"
    topic = "my.shop.orders"
    other_topics = ("my", "my.shop.signals", "my.transaction")
    settings: ClassVar = {
        "debezium.source.table.include.list": "shop.orders,shop.signals",
        "debezium.source.signal.data.collection": "shop.signals",
        "debezium.source.decimal.handling.mode": "string",
        "debezium.source.provide.transaction.metadata": "true",
    }
    envelope: ClassVar = {"type": "debezium", "before": "full"}
    table: ClassVar = {"partitionBy": ["grp"], "recordKey": ["id"]}
    create = (
        "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data TEXT)",
        """CREATE TABLE orders (id BIGINT PRIMARY KEY, grp VARCHAR(20) NOT NULL, n DECIMAL(14,3) NOT NULL DEFAULT 0,
        d DATE, t TIMESTAMP(6) NULL, f DOUBLE, whole INT, big LONGTEXT)""",
    )
    alter = ("ALTER TABLE orders ADD COLUMN extra TEXT AFTER grp", "ALTER TABLE orders MODIFY COLUMN whole BIGINT")
    upsert = "INSERT INTO orders (id, grp) VALUES (%s, %s) ON DUPLICATE KEY UPDATE grp = VALUES(grp)"
    or_whole = "ON DUPLICATE KEY UPDATE whole = VALUES(whole)"

    def __init__(self, database: MariaDB) -> None:
        self._connection = pymysql.connect(**database.login)
        super().__init__(database)

    @override
    def close(self) -> None:
        self._connection.close()

    @override
    def run(self, transaction: Sequence[Statement], *, commits: bool = True) -> None:
        try:
            with self._connection.cursor() as cursor:
                for sql, values in transaction:
                    cursor.execute(sql, values or None)
            self._connection.commit() if commits else self._connection.rollback()
        except pymysql.err.IntegrityError:
            self._connection.rollback()

    @override
    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            found = list(cursor.fetchall())
        self._connection.commit()
        return found
