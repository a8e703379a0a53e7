"""The database's side: one short statement for each range of keys, in transactions that only read.

A range is what lies between two values of the first column of the key, if that is a whole number: the key's index finds
it, and so bounds what a statement reads. Other keys go by their hash, all in one statement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from bucketingest.cli.audit.texts import INTEGERS, quoted_name, sql_hash, sql_number, sql_text
from bucketingest.cli.errors import BadOption, CommandError, MissingDependency
from bucketingest.exit_codes import ExitCode

if TYPE_CHECKING:
    from psycopg import Connection

Sum = tuple[int, int]
"""How many rows, and the sum of their hashes modulo 2**64."""
_CONNECT_SECONDS: Final = 10
_MODULUS: Final = 1 << 64
_HASH_BITS: Final = 16


class SourceFailed(CommandError):
    """The database does not answer, or refuses what is asked."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Load:
    """What the source may be asked to bear."""

    range_rows: int
    pause_seconds: float
    statement_seconds: float


@dataclass(frozen=True, slots=True)
class Compared:
    """The columns that both sides have."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    """The key's first."""
    left_out: tuple[str, ...]
    """Columns of one of the two that are not compared."""


@dataclass
class PostgresSource:
    """A table of PostgreSQL. Use it as a context."""

    connection: Connection[Any]
    table: str
    """Quoted."""
    load: Load
    compared: Compared = field(init=False)
    _texts: dict[str, str] = field(init=False)
    bounds: list[int] | None = field(init=False)
    """Last key of each range but the last; None: ranges of hashes."""

    @classmethod
    @contextmanager
    def open(
        cls, url: str, table: str, load: Load, *, key: Sequence[str], schema: pa.Schema, only: Sequence[str] = ()
    ) -> Iterator[Self]:
        """Raises SourceFailed, BadOption, MissingDependency."""
        try:
            import psycopg
        except ImportError as error:
            raise MissingDependency(
                f"audit needs the Python package psycopg ({error}): pip install 'bucketingest[audit]'"
            ) from error
        _refuse_password(url)
        try:
            with psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS) as connection:
                connection.execute("SET default_transaction_read_only = on")
                connection.execute(f"SET statement_timeout = {int(load.statement_seconds * 1000)}")
                connection.execute("SET max_parallel_workers_per_gather = 0")
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute("SET row_security = off")  # an error, where rows would be left out silently
                parts = ".".join(map(quoted_name, table.split(".")))
                source = cls(connection, parts, load)
                source._choose(key, schema, only)
                yield source
        except psycopg.Error as error:
            raise SourceFailed(f"the source {_shown(url)}, table {table}: {str(error).strip()}") from error

    def position(self) -> str:
        """Where the source's log is now."""
        return str(
            self._one(
                "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
            )
        )

    def _one(self, sql: str) -> Any:
        row = self.connection.execute(sql).fetchone()
        return None if row is None else row[0]

    def _choose(self, key: Sequence[str], schema: pa.Schema, only: Sequence[str]) -> None:
        if self._one("SHOW server_encoding") != "UTF8":
            raise BadOption("the source's encoding is not UTF8: hashes of texts would differ for all rows")
        kinds = dict(
            self.connection.execute(
                "SELECT attname, CASE WHEN typtype = 'e' THEN 'enum' ELSE typname::text END FROM pg_attribute "
                "JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid = %s::regclass AND attnum > 0 "
                "AND NOT attisdropped",
                (self.table,),
            ).fetchall()
        )
        wanted = list(dict.fromkeys([*key, *(only or [*schema.names, *kinds])]))
        texts = {
            each: sql_text(each, kinds[each], schema.field(each).type)
            for each in wanted
            if each in kinds and each in schema.names
        }
        self._texts = {name: text for name, text in texts.items() if text is not None}
        for each in (*key, *only):
            if each not in self._texts:
                here = schema.field(each).type if each in schema.names else "no such column"
                raise BadOption(
                    f"column {each} cannot be compared: the source's table {self.table} has "
                    f"{kinds.get(each, 'no such column')}, the table {here}"
                )
        left_out = tuple(each for each in wanted if each not in self._texts)
        self.compared = Compared(tuple(key), tuple(self._texts), left_out)
        self.bounds = list(self._bounds()) if kinds[key[0]] in INTEGERS else None

    def _bounds(self) -> Iterator[int]:
        first = quoted_name(self.compared.key[0])
        order, after = f"ORDER BY {first} OFFSET {self.load.range_rows - 1} LIMIT 1", ""
        while (last := self._one(f"SELECT {first} FROM {self.table} {after} {order}")) is not None:
            yield int(last)
            after = f"WHERE {first} > {last}"
            time.sleep(self.load.pause_seconds)

    @property
    def ranges(self) -> range:
        """Their numbers."""
        return range(1 << _HASH_BITS if self.bounds is None else len(self.bounds) + 1)

    def name(self, number: int) -> str:
        """A range, for people."""
        first = ", ".join(self.compared.key) if self.bounds is None else self.compared.key[0]
        if self.bounds is None:
            return f"md5 of ({first}) begins with {number:04x}"
        low = [f"> {self.bounds[number - 1]}"] if number else []
        high = [f"<= {self.bounds[number]}"] if number < len(self.bounds) else []
        return " and ".join(f"{first} {each}" for each in [*low, *high]) or "all keys"

    def number_of(self, keys: Sequence[pa.Array], hashes: Callable[[Sequence[pa.Array]], Any]) -> Any:
        """The ranges of the table's rows, int64[n], by the columns of their keys."""
        if self.bounds is None:
            return (hashes(keys).view(np.uint64) >> np.uint64(64 - _HASH_BITS)).astype(np.int64)
        first = keys[0].cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()
        return np.searchsorted(np.array(self.bounds, np.int64), first, side="left")

    def sums(self, numbers: Sequence[int]) -> dict[int, Sum]:
        """Of these ranges."""
        found: dict[int, Sum] = {}
        digits = sql_hash(list(self._texts.values()))
        for place, where in self._wheres(numbers):
            # OFFSET keeps the planner from computing a hash for each place where it is used.
            rows = f"SELECT {digits} AS h, {self._key_hash} AS k FROM {self.table} WHERE {where} OFFSET 0"
            sums = f"SELECT {place}, count(*), sum({sql_number('h')}) FROM ({rows}) rows GROUP BY 1"
            for number, count, total in self.connection.execute(sums).fetchall():
                found[int(number)] = (int(count), int(total) % _MODULUS)
        return found

    def rows(self, numbers: Sequence[int]) -> dict[tuple[str | None, ...], Sum]:
        """The rows of each key of these ranges, by the texts of the keys."""
        found: dict[tuple[str | None, ...], Sum] = {}
        texts = [self._texts[each] for each in self.compared.key]
        number = sql_number(sql_hash(list(self._texts.values())))
        for _, where in self._wheres(numbers):
            for *key, value in self.connection.execute(
                f"SELECT {', '.join(texts)}, {number} FROM {self.table} WHERE {where}"
            ).fetchall():
                add(found, tuple(key), int(value))
        return found

    @property
    def _key_hash(self) -> str:
        return "0" if self.bounds is not None else sql_hash([self._texts[each] for each in self.compared.key])

    def _wheres(self, numbers: Sequence[int]) -> Iterator[tuple[str, str]]:
        """SQL for the number of a range, and for its rows; pauses between statements."""
        if self.bounds is None:
            of_key = f"('x' || left(k, {_HASH_BITS // 4}))::bit({_HASH_BITS})::int"
            own = f"('x' || left({self._key_hash}, {_HASH_BITS // 4}))::bit({_HASH_BITS})::int"
            yield of_key, "true" if len(numbers) == len(self.ranges) else f"{own} IN ({', '.join(map(str, numbers))})"
            return
        first = quoted_name(self.compared.key[0])
        for at, number in enumerate(numbers):
            if at and self.load.pause_seconds:
                time.sleep(self.load.pause_seconds)
            low = [f"{first} > {self.bounds[number - 1]}"] if number else []
            high = [f"{first} <= {self.bounds[number]}"] if number < len(self.bounds) else []
            null = f" OR {first} IS NULL" if low and not high else ""
            yield str(number), (" AND ".join([*low, *high]) or "true") + null


def add(rows: dict[tuple[str | None, ...], Sum], key: tuple[str | None, ...], value: int) -> None:
    """One more row of a key: that a key has two says as much as that it has none."""
    count, total = rows.get(key, (0, 0))
    rows[key] = count + 1, (total + value) % _MODULUS


def _refuse_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise BadOption("--against: must be postgres://USER@HOST/DATABASE: no other database can be compared yet")
    # As text: the part with the password does not end where it should if that has a slash.
    if ":" in url.rpartition("@")[0].partition("://")[2] or "password=" in url:
        raise BadOption(
            "--against: everybody on this machine can read a password there: put it into PGPASSWORD, or into the file "
            "that PGPASSFILE names"
        )


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname or os.environ.get('PGHOST', 'localhost')}{parts.path}"
