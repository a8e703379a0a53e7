"""Random transactions from one seed: rows that come, change, change their key and go, alone and many at once."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Final

from mirror.sources import Source, Statement, Value
from mirror.whole import groups_written

GROUPS: Final = ("north", "south", "east", "west")
_LONG: Final = 3000
"""A text of so many characters is not sent again by PostgreSQL when it did not change."""


class Changes:
    """Draws transactions and runs them. `keys`: how many there are; `truncates`: whether all rows may go at once."""

    def __init__(self, source: Source, seed: int, *, keys: int, truncates: bool) -> None:
        self._source, self._keys, self._truncates = source, keys, truncates
        self._random = random.Random(seed)
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        """One transaction, or one change of the table's columns, or one wish for a snapshot."""
        draw = self._random.random()
        if draw < 0.002 and self._source.alter_once():
            self.counts["DDL"] += 1
        elif draw < 0.006:
            self._source.snapshot_again()
            self.counts["incremental snapshots"] += 1
        else:
            drawn = [self._statement() for _ in range(self._random.choice((1, 1, 2, 5)))]
            if self._random.random() < 0.1:
                drawn.append(("groups", groups_written(self._source, self._random)))
            commits = self._random.random() < 0.95
            self._source.run([statement for _, statement in drawn], commits=commits)
            self.counts.update(kind for kind, _ in drawn)
            self.counts["transactions" if commits else "transactions that were undone"] += 1

    def _statement(self) -> tuple[str, Statement]:
        kinds = {"insert": 30, "update": 30, "update of many": 4, "key change": 8, "delete": 12, "delete of many": 1}
        kinds |= {"insert of many": 3, "truncate": 1 if self._truncates and self._random.random() < 0.2 else 0}
        kind = self._random.choices(list(kinds), list(kinds.values()))[0]
        key, other = self._key(), self._key()
        columns = ["grp", "n", "d", "t", "f", "whole", "big", *(["extra"] if self._source.has_extra else [])]
        match kind:
            case "insert":
                columns = ["id", *columns]
                sql = f"INSERT INTO orders ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"
                return kind, (sql, tuple(key if name == "id" else self._value(name) for name in columns))
            case "update":
                chosen = self._random.sample(columns, self._random.randint(1, 3))
                sql = f"UPDATE orders SET {', '.join(f'{name} = %s' for name in chosen)} WHERE id = %s"
                return kind, (sql, (*map(self._value, chosen), key))
            case "update of many":
                return kind, (
                    "UPDATE orders SET n = n + 1, whole = %s WHERE id > %s AND id < %s",
                    (key, *_between(key)),
                )
            case "insert of many":
                start, end = _between(10 * self._keys + key)
                rows = ", ".join(f"({each}, '{self._random.choice(GROUPS)}', 1)" for each in range(start, end))
                return kind, (f"INSERT INTO orders (id, grp, n) VALUES {rows}", ())
            case "key change":
                # Without its long value PostgreSQL's event of the new key would be a dead letter.
                return kind, ("UPDATE orders SET id = %s, big = %s WHERE id = %s", (other, self._value("big"), key))
            case "delete":
                return kind, ("DELETE FROM orders WHERE id = %s", (key,))
            case "delete of many":
                shift = self._random.choice((0, 10 * self._keys))
                return kind, ("DELETE FROM orders WHERE id > %s AND id < %s", _between(shift + key))
            case _:
                return kind, ("TRUNCATE TABLE orders", ())

    def _key(self) -> int:
        return self._random.randint(1, self._keys)

    def _value(self, column: str) -> Value:
        draw = self._random
        if column not in {"grp", "n"} and draw.random() < 0.15:
            return None
        match column:
            case "grp":
                return draw.choice(GROUPS)
            case "n":
                return f"{draw.randint(-(10**9), 10**9)}.{draw.randint(0, 999):03}"
            case "d":
                return dt.date(1970, 1, 1) + dt.timedelta(draw.randint(-100, 20_000))
            case "t":
                return dt.datetime(2001, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=draw.randint(0, 10**15))
            case "f":
                return draw.choice((0.0, -1.5, 1e-7, draw.uniform(-1e9, 1e9)))
            case "whole":
                return draw.randint(-(2**31), 2**31 - 1)
            case "big":
                return f"{draw.random()}{'äx' * (_LONG // 2) if draw.random() < 0.7 else ''}"
            case _:
                return draw.choice(("", '"quoted"', "line\nline", "äöü €", "null", str(draw.random())))


def _between(key: int) -> tuple[int, int]:
    return key, key + 200
