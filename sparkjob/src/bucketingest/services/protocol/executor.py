"""Makes the base files of a plan, beside the job or in it. Any number of executors may work on one plan: two of them
make the same file.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.errors import RoundEnded
from bucketingest.services.protocol.journal import ServiceJournal
from bucketingest.services.protocol.records import Result
from bucketingest.storage import NotFound, ObjectTooLarge, StorageError

log = logging.getLogger(__name__)

TOO_LARGE: Final = ObjectTooLarge.__name__
"""How the reason begins if the store does not take the new base file: its partition needs more buckets."""


class Executor(ABC):
    """Makes the base files that are missing. What an executor before this one made is adopted."""

    def __init__(
        self, journal: ServiceJournal[Any], number: int, chunks: Sequence[range], *, round_number: int = 0
    ) -> None:
        """`chunks`: the places of those operations of the plan whose results are recorded together."""
        self._journal = journal
        self._number = number
        self._chunks = chunks
        self._round_number = round_number

    @abstractmethod
    def check(self) -> None:
        """Raise RoundEnded if nobody waits for the files any more."""

    @abstractmethod
    def _make(self, place: int) -> WriteStat:
        """Make the base file of an operation, or adopt it."""

    @abstractmethod
    def _named(self, place: int) -> dict[str, object]:
        """What to call an operation in the log."""

    @abstractmethod
    def _left_out(self, place: int) -> str | None:
        """Why an operation is not tried; None if it is."""

    def run(
        self,
        *,
        gives_up: Mapping[int, str] = MappingProxyType({}),
        starts: Callable[[int, int], None] = lambda _place, _of: None,
    ) -> int:
        """Make the base files, and record results by chunks; returns how many operations failed.

        `gives_up`: operations that are not tried, by their place in the plan, and why. `starts` is called with the
        place of each operation and their number. An operation that cannot be merged fails alone: its file groups stay
        as they are. Raises RoundEnded if another process decided the plan, and StorageError: then another executor
        continues.
        """
        done = self.done_chunks()
        left = [chunk for chunk in range(self.chunk_count) if chunk not in done]
        return sum(self.run_chunk(chunk, gives_up=gives_up, starts=starts) for chunk in left)

    @property
    def chunk_count(self) -> int:
        """Number of the chunks into which the work is cut."""
        return len(self._chunks)

    def done_chunks(self) -> set[int]:
        """The chunks that have results."""
        return self._journal.result_chunks(self._number, self._round_number)

    def run_chunk(
        self,
        chunk: int,
        *,
        gives_up: Mapping[int, str] = MappingProxyType({}),
        starts: Callable[[int, int], None] = lambda _place, _of: None,
    ) -> int:
        """Make the base files of one chunk, and record their results; returns how many failed. See `run`."""
        results = []
        for place in self._chunks[chunk]:
            starts(place, self._chunks[-1].stop)
            results.append(self._result(place, self._left_out(place) or gives_up.get(place)))
        self._journal.put_results(self._number, results, round_number=self._round_number, chunk=chunk)
        return sum(result.stat is None for result in results)

    def _result(self, place: int, failed: str | None) -> Result:
        self.check()
        if failed is None:
            try:
                return Result(self._make(place))
            except Exception as error:
                if not _fails_alone(error):
                    raise
                failed = f"{type(error).__name__}: {error}"
        log.error("file group not merged, it stays", extra={**self._named(place), "reason": failed})
        return Result(None, failed)


def _fails_alone(error: Exception) -> bool:
    """Whether a merge that failed so is given up: another try, or another process, would fail the same way. Pyarrow and
    the scratch disk raise OSError and more for one damaged or too large file group. Else the round has ended, or
    storage does not answer.
    """
    if isinstance(error, StorageError):
        return isinstance(error, NotFound | ObjectTooLarge)
    return not isinstance(error, RoundEnded)
