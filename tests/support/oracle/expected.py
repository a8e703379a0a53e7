"""What a table must hold, computed from the rows that went in: the judge that knows neither Hudi's code nor ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How rows of one key become one row. A key is unique within its partition, as with Hudi's bucket index."""

    key: Sequence[str]
    partition_by: Sequence[str] = ()
    ordering: str | None = None
    """None: the later row always wins (commit-time ordering)."""
    deleted: str | None = None
    """Name of a boolean column: true deletes the key; null and false do not."""

    @property
    def identity(self) -> list[str]:
        """The columns that together name a row of the table."""
        return [*self.partition_by, *(name for name in self.key if name not in self.partition_by)]


@dataclass(frozen=True, slots=True)
class _Winner:
    ordering: Any
    row: int | None  # position among all rows applied; None: deleted


@dataclass(slots=True)
class ExpectedTable:
    """The table that results from rows in the order in which they were committed.

    A row wins over an earlier one when its ordering value is equal or higher. A delete leaves its ordering value
    behind, so that a late row cannot bring the key back; `compact` forgets deletes, as Hudi's compaction does.
    Rows without an ordering value have no place in it: they are dead letters, as Hudi's reader fails on a key that has
    both a row with and a row without one.
    """

    rules: MergeRules
    _winners: dict[Key, _Winner] = field(default_factory=dict)
    _inputs: list[pa.Table] = field(default_factory=list)
    _rows: int = 0

    def apply(self, rows: pa.Table) -> None:
        """Merges the rows of one commit; within the commit, too, the later row wins at equal ordering values."""
        for position, (key, ordering, deleted) in enumerate(self._changes(rows), start=self._rows):
            if self.rules.ordering is not None and ordering is None:
                continue
            current = self._winners.get(key)
            if current is None or self.rules.ordering is None or ordering >= current.ordering:
                self._winners[key] = _Winner(ordering, None if deleted else position)
        self._inputs.append(rows)
        self._rows += rows.num_rows

    def compact(self) -> None:
        """Forgets deleted keys and their ordering values."""
        self._winners = {key: winner for key, winner in self._winners.items() if winner.row is not None}

    def drop(self, partition: Key) -> None:
        """Forgets every key of a partition, given by the values of its columns: it was deleted."""
        kept = {key: each for key, each in self._winners.items() if key[: len(partition)] != partition}
        self._winners = kept

    def live(self) -> set[Key]:
        """The keys of the surviving rows."""
        return {key for key, winner in self._winners.items() if winner.row is not None}

    def deleted(self) -> set[Key]:
        """The keys of deletes that left their ordering value behind."""
        return self._winners.keys() - self.live()

    def table(self) -> pa.Table:
        """The surviving rows with all columns of the input, in no particular order."""
        if not self._inputs:
            return pa.table({})
        rows = sorted(winner.row for winner in self._winners.values() if winner.row is not None)
        return pa.concat_tables(self._inputs, promote_options="default").take(pa.array(rows, pa.int64()))

    def _changes(self, rows: pa.Table) -> Iterator[tuple[Key, Any, bool]]:
        keys: Iterable[Key] = zip(*(rows[name].to_pylist() for name in self.rules.identity), strict=True)
        orderings = rows[self.rules.ordering].to_pylist() if self.rules.ordering else [None] * rows.num_rows
        deleted = rows[self.rules.deleted].to_pylist() if self.rules.deleted else [False] * rows.num_rows
        return zip(keys, orderings, (flag is True for flag in deleted), strict=True)


def expected_table(inputs: Iterable[pa.Table], rules: MergeRules) -> pa.Table:
    """The table after all `inputs`, one per commit, in order. Never compacted: late rows do not revive deleted keys."""
    table = ExpectedTable(rules)
    for rows in inputs:
        table.apply(rows)
    return table.table()
