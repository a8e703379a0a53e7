"""The table gets the columns of the messages' schemas: at a start those of the newest that it takes, then all that new
ones have more. What it does not take is put aside; the job goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, TypeVar

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import SchemaError, UnsupportedTable
from bucketingest.index.errors import MissingKeyColumn, UnsupportedKeyType
from bucketingest.stream.errors import InvalidTransform
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.stream.spark.failures import got_no_answer
from bucketingest.write.errors import LogFilesLeft

log = logging.getLogger(__name__)
Input = TypeVar("Input")
Taken = TypeVar("Taken")
Started = TypeVar("Started")

_NOT_TAKEN: Final = (UnsupportedTable, SchemaError, InvalidTransform, UnsupportedKeyType, MissingKeyColumn)
"""What is said of columns that the table cannot have."""
WAIT_SECONDS: Final = 120.0
"""So long another writer's compaction that is in the way is waited for; then the job goes on without the columns."""
AGAIN_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 5.0


def first_taken(inputs: Iterable[Callable[[], Input]], take: Callable[[Input], Taken]) -> Taken:
    """What is taken first, of inputs from the newest schema on. Raises what was said of the newest if none is."""
    refused: BucketIngestError | None = None
    why: BucketIngestError | None = None
    for make in inputs:
        if refused is not None:
            log.warning("a start with an older schema: the table cannot take a newer one", extra={"reason": str(why)})
        try:
            return take(make())
        except (*_NOT_TAKEN, LogFilesLeft) as error:
            if got_no_answer(error):
                raise
            refused, why = refused or error, error
    assert refused is not None, "there is an input"
    raise refused


@dataclass(frozen=True, slots=True)
class Growth(Generic[Input, Started]):
    """Starts again with columns that have become more."""

    columns: ColumnsSchema
    with_schema: Callable[[str], Input]
    start: Callable[[Input], Started]
    clock: Callable[[], float] = time.monotonic

    def starter(self, asked: SchemaGrown | None, stop: threading.Event) -> Started:
        """Starts with the columns that are asked for; with those of before if the table cannot have them, or not now,
        or if nothing is asked for. `stop`: the job is to stop.
        """
        if asked is None:
            return self.start(self.with_schema(self.columns.text))
        changes = {str(number): paths for number, paths in asked.changes.items()}
        until = self.clock() + WAIT_SECONDS
        while True:
            try:
                starter = self.start(self.with_schema(asked.text))
            except LogFilesLeft as error:
                if self.clock() < until and not stop.wait(_PAUSE_SECONDS):
                    log.warning("waiting for old log files to be merged", extra={"reason": str(error)})
                    continue
                why, again_after = f"not yet: {error}", AGAIN_SECONDS
            except _NOT_TAKEN as error:
                if got_no_answer(error):
                    raise
                why, again_after = str(error), None
            else:
                log.info("the columns grow with the messages' schemas", extra={"changes": changes})
                self.columns.grow(asked)
                return starter
            paths = ", ".join(sorted(set(chain(*changes.values()))))
            self.columns.refuse(asked, f"has {paths}, which the table cannot take: {why}", again_after=again_after)
            return self.start(self.with_schema(self.columns.text))
