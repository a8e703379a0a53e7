"""Which table services another writer carries out on a table, from what is new on its timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.timeline.instant import CLEAN, CLUSTERING, COMMIT, COMPACTION, LOG_COMPACTION, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.execute import CleanDecisions
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.storage import Storage

RECENT: Final = timedelta(hours=24)
"""A service that another writer carried out so recently counts as running. Our own records are kept as long."""
_MERGES: Final = (COMPACTION, COMMIT, LOG_COMPACTION, CLUSTERING)


@dataclass(frozen=True, slots=True)
class ForeignServices:
    """What another writer did lately: request times; None for nothing."""

    compaction: str | None = None
    """Of its newest compaction, log compaction or pending clustering, if none of ours is newer."""
    clean: str | None = None
    """Of its newest clean, if none of ours is newer."""


def foreign_services(storage: Storage, now: datetime) -> ForeignServices:
    """Look at the newest compaction and the newest clean of the table. Raises what reading the timeline raises."""
    timeline = Timeline.load(storage)
    merge = _newest(timeline, _MERGES, now)
    clean = _newest(timeline, (CLEAN,), now)
    return ForeignServices(
        None if merge is None or _is_our_compaction(storage, merge) else merge.request_time,
        None if clean is None or _is_our_clean(storage, clean) else clean.request_time,
    )


def _newest(timeline: Timeline, actions: tuple[str, ...], now: datetime) -> Instant | None:
    recent = (i for i in timeline.instants if i.action in actions and now - parse_time(i.request_time) <= RECENT)
    return max(recent, key=lambda each: each.request_time, default=None)


def _is_our_compaction(storage: Storage, found: Instant) -> bool:
    """By our plans, not by the commit: Hudi may have carried our plan out."""
    journal = CompactionJournal(storage)
    for number in reversed(journal.numbers()):
        plan = journal.plan(number)
        if plan is not None and plan.compaction <= found.request_time:
            return plan.compaction == found.request_time
    return False


def _is_our_clean(storage: Storage, clean: Instant) -> bool:
    return not clean.is_completed or CleanDecisions(storage).decision(int(clean.request_time)) is not None
