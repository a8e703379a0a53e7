"""Tables compared as sets of rows, and a difference that a person can read: which keys, which columns, which values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

META_PREFIX = "_hoodie_"
EXAMPLES_MAX = 5

Row = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class TableDiff:
    """How an actual table differs from the expected one. Counts are of rows; examples are at most five of a kind."""

    columns: list[str]
    """Columns missing, extra or of another type, in words."""
    missing: list[str]
    extra: list[str]
    different: list[str]
    counts: tuple[int, int, int]
    """Rows missing, extra (doubled ones included), different."""

    def __bool__(self) -> bool:
        raise TypeError("is there a difference or not? Ask `same`, a truth value reads both ways")

    @property
    def same(self) -> bool:
        """Whether both tables hold the same rows."""
        return not self.columns and self.counts == (0, 0, 0)

    def __str__(self) -> str:
        lines = list(self.columns)
        for what, examples, count in zip(
            ("missing", "extra", "different"), (self.missing, self.extra, self.different), self.counts, strict=True
        ):
            if count:
                lines.append(f"{count} {what} row{'s' if count > 1 else ''}:")
                lines += [f"  {example}" for example in examples]
                lines += [f"  ... and {count - len(examples)} more"] if count > len(examples) else []
        return "\n".join(lines) or "the same rows"


def assert_same_rows(actual: pa.Table, expected: pa.Table, key: Sequence[str]) -> None:
    """Fails with the difference unless both tables hold the same rows; meta columns and all order are ignored."""
    diff = diff_tables(actual, expected, key)
    assert diff.same, f"the table is not as expected ({actual.num_rows} rows, expected {expected.num_rows})\n{diff}"


def diff_tables(actual: pa.Table, expected: pa.Table, key: Sequence[str]) -> TableDiff:
    """The difference by `key` columns, which name a row; a key that occurs twice in one table is a doubled row."""
    actual, expected = without_meta_columns(actual), without_meta_columns(expected)
    columns = _column_differences(actual.schema, expected.schema)
    if columns:
        return TableDiff(columns, [], [], [], (0, 0, 0))
    names = expected.column_names
    got, wanted = _rows_by_key(actual.select(names), key), _rows_by_key(expected, key)
    missing, extra, different = [], [], []
    for row_key in sorted(wanted.keys() | got.keys(), key=repr):
        lost, added = _surplus(wanted[row_key], got[row_key]), _surplus(got[row_key], wanted[row_key])
        pairs = min(len(lost), len(added))
        label = ", ".join(f"{name}={value!r}" for name, value in zip(key, row_key, strict=True))
        different += [
            f"{label}: " + ", ".join(_cells(names, a, w)) for w, a in zip(lost[:pairs], added[:pairs], strict=True)
        ]
        missing += [_described(names, row) for row in lost[pairs:]]
        extra += [
            _described(names, row) + (" (the key is doubled)" if wanted[row_key] else "") for row in added[pairs:]
        ]
    return TableDiff(
        [],
        missing[:EXAMPLES_MAX],
        extra[:EXAMPLES_MAX],
        different[:EXAMPLES_MAX],
        counts=(len(missing), len(extra), len(different)),
    )


def without_meta_columns(table: pa.Table) -> pa.Table:
    """The table's own columns."""
    return table.select([name for name in table.column_names if not name.startswith(META_PREFIX)])


def _column_differences(actual: pa.Schema, expected: pa.Schema) -> list[str]:
    problems = [f"column {name} is missing" for name in expected.names if name not in actual.names]
    problems += [f"column {name} is extra" for name in actual.names if name not in expected.names]
    problems += [
        f"column {name} is {actual.field(name).type}, expected {expected.field(name).type}"
        for name in expected.names
        if name in actual.names and _plain(actual.field(name).type) != _plain(expected.field(name).type)
    ]
    return problems


def _plain(kind: pa.DataType) -> str:
    """A type without what means nothing: width of offsets, dictionary encoding, names inside lists, spelling of UTC."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_plain(kind.key_type)},{_plain(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return (
            f"struct<{','.join(f'{kind.field(i).name}:{_plain(kind.field(i).type)}' for i in range(kind.num_fields))}>"
        )
    if pa.types.is_timestamp(kind) and kind.tz in {"UTC", "+00:00", "Z", "Etc/UTC"}:
        return f"timestamp[{kind.unit}, UTC]"
    return str(kind)


def _rows_by_key(table: pa.Table, key: Sequence[str]) -> defaultdict[Row, Counter[Row]]:
    positions = [table.column_names.index(name) for name in key]
    rows: defaultdict[Row, Counter[Row]] = defaultdict(Counter)
    for row in _rows(table):
        rows[tuple(row[position] for position in positions)][row] += 1
    return rows


def _rows(table: pa.Table) -> Iterator[Row]:
    columns = [[_comparable(value) for value in column.to_pylist()] for column in table.columns]
    return zip(*columns, strict=True)


def _comparable(value: Any) -> Hashable:
    if isinstance(value, float) and value != value:  # noqa: PLR0124 -- NaN, which equals nothing, itself included
        return "NaN"
    if isinstance(value, dict):
        return tuple((name, _comparable(item)) for name, item in value.items())
    if isinstance(value, list):  # a map arrives as a list of pairs, in an order that means nothing to us either
        items = [_comparable(item) for item in value]
        return tuple(sorted(items, key=repr)) if value and isinstance(value[0], tuple) else tuple(items)
    if isinstance(value, tuple):
        return tuple(_comparable(item) for item in value)
    result: Hashable = value
    return result


def _surplus(rows: Counter[Row], others: Counter[Row]) -> list[Row]:
    return list((rows - others).elements())


def _cells(names: Sequence[str], actual: Row, expected: Row) -> list[str]:
    return [
        f"{name} is {got!r}, expected {wanted!r}"
        for name, got, wanted in zip(names, actual, expected, strict=True)
        if got != wanted
    ]


def _described(names: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True))
