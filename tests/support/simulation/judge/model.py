"""The table that the input must give: a model that knows ranges of the source, but no files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bucketingest.write.plan import DELETE_COLUMN
from support.simulation.judge.reader import Place
from support.simulation.source import SCHEMA
from support.simulation.spec import TRUNCATE, Assigned, Row, Transform

_UNPLANNED = Transform()


@dataclass(frozen=True, slots=True)
class Written:
    """A micro-batch as a completed instant names it."""

    instant: str
    sequence: int
    pipeline: str
    numbers: tuple[int, ...]
    """Of the source's rows."""
    end: str
    """The position after them."""
    stands: bool
    """The instant was not rolled back."""


@dataclass
class Model:
    """Rows that must be in the table, and rows that may be: those of rolled-back instants."""

    certain: list[Row] = field(default_factory=list)
    possible: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    """Rows that came after a newer deletion of their key, which an index with a state forgets if it had no such key."""

    @classmethod
    def of(
        cls,
        source: Sequence[Row],
        written: Iterable[Written],
        assigned: Assigned,
        *,
        expected: Collection[int] | None = None,
        forgets: bool = False,
    ) -> Model:
        """What completed micro-batches, in the order in which they became visible, make of the source.

        Of a range that is named twice, the last one not rolled back counts. A row that none names is still expected.
        `expected`: numbers of the rows of which that is so; None: all.
        `forgets`: a deletion of a key that is not in the table leaves nothing.
        """
        found = cls()
        deleted: dict[Place, Row] = {}
        newest: dict[tuple[str, int], Row] = {}
        for part in written:
            for offset, row in zip(part.numbers, _rows(source, part, assigned), strict=True):
                if part.stands:
                    if (before := newest.get((part.pipeline, offset))) is not None:
                        found.possible.append(before)
                    newest[part.pipeline, offset] = row
                    found._note_order(row, deleted if forgets else {})
                else:
                    found.possible.append(row)
        named = {offset for _, offset in newest}
        found.certain = [newest[at] for at in sorted(newest, key=lambda at: (at[1], at[0]))]
        found.certain += [
            _UNPLANNED.of(row, 0)
            for n, row in enumerate(source)
            if n not in named and (expected is None or n in expected)
        ]
        return found

    def _note_order(self, row: Row, deleted: dict[Place, Row]) -> None:
        if row["id"] is None:
            return  # it is rejected
        place = (row["region"], row["id"])
        known = deleted.get(place)
        is_late = known is not None and (row["at"], row["offset"]) < (known["at"], known["offset"])
        if row[DELETE_COLUMN] and not is_late:
            deleted[place] = row
        elif is_late:
            self.late.append(row)

    def outcomes(self) -> Mapping[Place, list[Row | None]]:
        """What a reader may see at each place; None: no row."""
        winners = _winners(self.certain)
        allowed: defaultdict[Place, list[Row | None]] = defaultdict(list)
        for place, row in winners.items():
            allowed[place].append(_shown(row))
        for row in self.possible:
            place = (row["region"], row["id"])
            if row["id"] is not None:
                known = winners.get(place)
                if known is None:
                    allowed[place].append(None)
                if known is None or (row["at"], row["offset"]) > (known["at"], known["offset"]):
                    allowed[place].append(_shown(row))
        for row in self.late:
            allowed[row["region"], row["id"]].append(_shown(row))
        return allowed


def compare(
    found: Mapping[Place, Sequence[Mapping[str, Any]]], outcomes: Mapping[Place, Sequence[Row | None]], when: str
) -> Iterator[str]:
    """What is lost, doubled, wrong, or there and should not be."""
    for place in sorted(found.keys() | outcomes.keys()):
        allowed = outcomes.get(place, [None])
        rows = found.get(place, ())
        if len(rows) > 1:
            yield f"doubled {when}: {place} is in {len(rows)} file groups: {rows}"
            continue
        names: Iterable[str] = next((each for each in allowed if each is not None), SCHEMA.names)
        shown = {name: rows[0][name] for name in names if name in rows[0]} if rows else None
        if shown in allowed:
            continue
        if shown is None:
            yield f"lost {when}: {allowed[0]}"
        elif not any(allowed):
            yield f"there but should not be {when}: {shown}"
        else:
            yield f"wrong {when}: {shown} instead of {allowed[0]}"


def deletions(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """How often each key is deleted in each partition."""
    return Counter((row["region"], row["id"], row["at"]) for row in rows if row[DELETE_COLUMN])


def _rows(source: Sequence[Row], part: Written, assigned: Assigned) -> list[Row]:
    planned = [work for work in assigned.get((part.instant, part.sequence), ()) if work.numbers == part.numbers]
    if planned:
        return planned[-1].rows(source)
    return [_UNPLANNED.of(row, 0) for row in map(source.__getitem__, part.numbers)]


def _winners(rows: Iterable[Row]) -> dict[Place, Row]:
    """Of the rows of a place the one with the greatest (ordering value, offset), of those behind a truncate."""
    winners: dict[Place, Row] = {}
    for row in rows:
        if TRUNCATE in row:
            winners.clear()
        place = (row["region"], row["id"])
        known = winners.get(place)
        if row["id"] is not None and (known is None or (row["at"], row["offset"]) >= (known["at"], known["offset"])):
            winners[place] = row
    return winners


def _shown(row: Row) -> Row | None:
    return None if row.get(DELETE_COLUMN) else {name: value for name, value in row.items() if name != DELETE_COLUMN}
