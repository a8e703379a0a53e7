"""Makes the base files of a round together with other executors, each in its own process: what pods of a Job do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from bucketingest.hudi.timeline.heartbeat import beating
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.errors import RoundEnded
from bucketingest.services.pods.claims import Claims
from bucketingest.services.protocol.records import HEARTBEAT
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

POLL: Final = timedelta(seconds=5)
"""Time between two looks for work while other executors hold all of it."""


class SharedRound:
    """One executor's part of a round. It ends when every chunk has its result, whoever made it."""

    def __init__(
        self,
        storage: Storage,
        number: int,
        round_number: int,
        *,
        index: int = 0,
        of: int = 1,
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251 - the real one, unless given
        claims: Claims | None = None,
    ) -> None:
        """`index` of so many executors: each starts at another chunk. Raises as `RoundExecutor` does."""
        self._storage = storage
        self._executor = RoundExecutor(storage, number, round_number)
        self._first = self._executor.chunk_count * index // max(of, 1)
        self._claims = claims or Claims(storage, number, round_number, f"pod {index}")
        self._sleep = sleep

    def run(self) -> int:
        """Work until nothing is left to do; returns how many operations failed here. Raises as the executor's `run`."""
        failures = 0
        while chunks := self._open_chunks():
            # The heartbeat beats only while a chunk is without its result: later the compaction may be complete.
            with self._claims.holding_one(chunks) as held:
                if held is not None:
                    log.info("merging", extra={"chunk": held.chunk, "of": self._executor.chunk_count})
                    with beating(self._storage, self._executor.compaction, content=HEARTBEAT):
                        failures += self._executor.run_chunk(held.chunk, gives_up=held.gives_up, starts=held.starts)
            if held is None:
                self._executor.check()
                self._sleep(POLL.total_seconds())
        return failures

    def _open_chunks(self) -> list[int]:
        done, count = self._executor.done_chunks(), self._executor.chunk_count
        order = ((self._first + place) % count for place in range(count))
        return [chunk for chunk in order if chunk not in done]


def is_open(storage: Storage, number: int, round_number: int) -> bool:
    """Whether executors of the round still have something to do."""
    journal = CompactionJournal(storage)
    newest, opened = journal.newest_round(number)
    return (
        opened is not None
        and newest == round_number
        and journal.done(number) is None
        and journal.decision(number, round_number) is None
    )


def share_round(storage: Storage, number: int, round_number: int, *, index: int, of: int) -> int | None:
    """Work on a round until nothing is left to do; returns how many operations failed here, None if the round ended.

    Raises RoundEnded if this executor must not go on although the round is open, as a release that merges otherwise,
    and what reading and writing raises.
    """
    if not is_open(storage, number, round_number):
        return None
    try:
        return SharedRound(storage, number, round_number, index=index, of=of).run()
    except RoundEnded:
        if is_open(storage, number, round_number):
            raise
        return None
