"""Compacts a table in this process, from the plan to the commit: what a command does, and a test."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final

from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.heartbeat import beating
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import Ended, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.errors import RoundEnded
from bucketingest.services.protocol.records import HEARTBEAT
from bucketingest.services.state import damage_report
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

_ROUNDS_MAX: Final = 10


def compact_now(
    storage: Storage,
    holder: CompactionHolder,
    triggers: CompactionTriggers,
    clock: Callable[[], datetime],
    *,
    only: Collection[Group] | None = None,
    accept_damage: bool = False,
) -> list[Ended]:
    """Finish the compaction that an earlier process left, then do the one that is due; returns those that ended.

    `only`: file groups that may be in a new one; None: all. `accept_damage`: also those that lack files, which are
    reported otherwise. Raises PlanOutdated if another writer came between, and
    what the holder's steps, a proposal and reading raise.
    """
    ended = _finished(storage, holder)
    look = propose(storage, triggers, clock(), only=only, accept_damage=accept_damage)
    damage_report(look.damaged)
    if look.proposal is not None:
        holder.request(look.proposal)
        ended += _finished(storage, holder)
    return ended


def _finished(storage: Storage, holder: CompactionHolder) -> list[Ended]:
    for _ in range(_ROUNDS_MAX):
        state = holder.advance()
        if not isinstance(state, Work):
            return [] if state is None else [state]
        try:
            with beating(storage, state.compaction, content=HEARTBEAT):
                RoundExecutor(storage, state.number, state.round_number).run()
        except RoundEnded as error:
            log.warning("round ended", extra={"reason": str(error)})
    log.error("another writer interrupts each round of the compaction", extra={"rounds": _ROUNDS_MAX})
    return []
