"""The schema of the columns, which grows with those of the messages; what is refused of them, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bucketingest.decode.avro.growth import columns_in_all, grown, left_out
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.hudi.table.schema_evolution import Evolution

COLUMNS_MAX: Final = 2_000
"""Columns, with the fields inside them, that a table gets by growing: more than anybody means, and about as many as
Spark and Parquet handle."""


class SchemaGrown(Exception):
    """Messages of a micro-batch have fields that are no columns yet, or wider types; nothing of it is written."""

    def __init__(self, text: str, changes: Mapping[int, Sequence[str]]) -> None:
        super().__init__(f"schemas {', '.join(map(str, changes))} have more than the columns")
        self.text = text
        """The schema of the columns with them."""
        self.changes = changes
        """Paths of the fields, by the schema's id."""


class ColumnsSchema:
    """The schema of the columns, which grows with those of the messages. One for as long as the process runs."""

    def __init__(self, evolution: Evolution = "follow", clock: Callable[[], float] = time.monotonic) -> None:
        self._evolution = evolution
        self._clock = clock
        self.text = ""
        """As the table has it."""
        self.refused: dict[int, str] = {}
        """Why the table cannot take what a schema has, by the schema's id."""
        self._later: dict[int, float] = {}
        """When those are looked at again that the table cannot take now."""
        self.growths: list[str] = []
        """The schemas with which the columns became more, and what was new: one text for each time."""
        self._covered: set[int] = set()
        self._one_by_one = False

    def cover(self, writers: Mapping[int, WriterSchema], columns_in: Callable[[WriterSchema], str]) -> None:
        """Look at the schemas that are new, or all if the columns or what is refused have changed. `columns_in`: the
        schema of what becomes a row. Raises SchemaGrown until `grow` or `refuse` has been called for each.
        """
        for number in [each for each, due in self._later.items() if due <= self._clock()]:
            del self.refused[number], self._later[number]
            self._covered.discard(number)
        if self._evolution == "off":
            return
        changes: dict[int, Sequence[str]] = {}
        text = self.text
        for number in sorted(writers.keys() - self._covered - self.refused.keys()):
            if changes and self._one_by_one:
                break
            self._covered.add(number)
            if not writers[number].why_not:
                try:
                    more, paths = grown(text, columns_in(writers[number]), widens=self._evolution == "follow")
                    count = columns_in_all(more) if paths else 0
                except UnreadableSchema:  # its messages are dead letters
                    continue
                if count > COLUMNS_MAX:
                    why = f"{count} columns, with the fields inside them, and no table grows to more than {COLUMNS_MAX}"
                    self.refused[number] = f"would make {why}; give spec.format.schema with the fields that you need"
                elif paths:
                    text = more
                    changes[number] = paths
        if changes:
            raise SchemaGrown(text, changes)

    def left_out(self, columns_in: Callable[[WriterSchema], str], writer: WriterSchema) -> tuple[str, ...]:
        """Fields of a schema that is looked at which become no columns, such as unions of several types."""
        try:
            return left_out(self.text, columns_in(writer))
        except UnreadableSchema:
            return ()

    def grow(self, asked: SchemaGrown) -> None:
        """The table has these columns now."""
        self.text = asked.text
        self.growths.append("; ".join(f"schema {each}: {', '.join(paths)}" for each, paths in asked.changes.items()))
        self._covered.clear()

    def refuse(self, asked: SchemaGrown, why: str, *, again_after: float | None = None) -> None:
        """The table cannot take what a schema has: its messages are dead letters. Of several schemas any may be to
        blame: they are asked for again, one by one. What others have of the same is looked at again, too.
        `again_after`: seconds after which the table may take it.
        """
        self._one_by_one = len(asked.changes) > 1
        if not self._one_by_one:
            self.refused |= dict.fromkeys(asked.changes, why)
            if again_after is not None:
                self._later |= dict.fromkeys(asked.changes, self._clock() + again_after)
        self._covered.clear()
