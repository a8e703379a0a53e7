"""Columns of files that the schema does not have: tasks meet them, the driver warns of each. Workers import this, so it
imports nothing of the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

log = logging.getLogger(__name__)

_MAX: Final = 1000
"""Columns that are remembered: one file may have any number of them."""
_NAME_MAX: Final = 256
"""Characters of a name that are kept."""


class _Joined(AccumulatorParam[dict[str, str]]):
    def zero(self, value: dict[str, str]) -> dict[str, str]:
        del value
        return {}

    def addInPlace(self, value1: dict[str, str], value2: dict[str, str]) -> dict[str, str]:  # noqa: N802 - Spark's name
        for column, path in value2.items():
            if len(value1) < _MAX:
                value1.setdefault(column, path)
        return value1


class UnknownColumns:
    """All that were met since the start of the process, up to a limit."""

    def __init__(self, context: SparkContext) -> None:
        self._found: Accumulator[dict[str, str]] = context.accumulator({}, _Joined())
        self.met = Met(self._found)
        """For tasks: picklable."""
        self._warned: set[str] = set()

    @property
    def found(self) -> Mapping[str, str]:
        """Column → the first file that had it."""
        return dict(self._found.value)  # the thread that takes what tasks send may add to it

    def warn(self) -> None:
        """Log a warning for each column, once."""
        for column, path in self.found.items():
            if column not in self._warned:
                self._warned.add(column)
                log.warning("a column is not in the schema and is not read", extra={"column": column, "file": path})


class Met:
    """Takes the columns of a file in a task."""

    def __init__(self, found: Accumulator[dict[str, str]]) -> None:
        self._found = found

    def __call__(self, columns: Sequence[str], path: str) -> None:
        """The file, and its columns that the schema does not have."""
        self._found.add({column[:_NAME_MAX]: path for column in columns[:_MAX]})
