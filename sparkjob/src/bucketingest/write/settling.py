"""The start of an attempt: what earlier ones left open is finished, resumed or taken back, and the position is read
from what is there then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from bucketingest.storage import Storage
from bucketingest.write.coordination import Coordination
from bucketingest.write.errors import InstantAborted, PositionLost, RangeConflict
from bucketingest.write.instant_writer import InstantWriter
from bucketingest.write.open_instant import OpenInstant
from bucketingest.write.outcome import Start, StartVerdict
from bucketingest.write.position import archived_position, read_position
from bucketingest.write.recovery import FoundInstant, Verdict, find_instant, verdict
from bucketingest.write.source_range import Relation, SourceRange, before, begins_after, relate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """How the table stands once nothing is left of earlier attempts but one open instant at most."""

    open_instant: OpenInstant | None
    start: Start


def settle(
    storage: Storage, coordination: Coordination, writer: InstantWriter, commit: Callable[[OpenInstant], object]
) -> Settled:
    """Finish, resume or take back every instant that earlier attempts left. May be repeated after a failure."""
    found = _Findings()
    standing = coordination.standing()
    for request_time, objects in standing.items():
        if "done" not in objects:
            _recover(find_instant(storage, coordination, request_time), coordination, writer, commit, found)
        elif "aborted" in objects:
            writer.removal.sweep(request_time)
    writer.removal.discard_staged()
    read = read_position(storage, writer.look(), coordination.pipeline)
    if read.lost:
        found.rewound(f"rows that other writers took back are ingested again, after instants {', '.join(read.lost)}")
    end = read.end or archived_position(storage, coordination)
    left = found.open_instant
    if left is not None and not _goes_on(left, end, coordination, standing):
        why = "it does not go on from what the table has"
        writer.removal.abort(left.request_time, why)
        found.rewound(f"instant {left.request_time} was taken back: {why}")
        left = found.open_instant = None
    position = (None if left is None else left.position) or end
    return Settled(left, found.start(position, None if left is None else left.begun))


class _Findings:
    """Collects what was found, for the verdict."""

    def __init__(self) -> None:
        self.open_instant: OpenInstant | None = None
        self._reasons: list[str] = []
        self._verdict: StartVerdict | None = None

    def resumed(self, reason: str) -> None:
        self._reasons.append(reason)
        self._verdict = self._verdict or StartVerdict.RESUMED

    def rewound(self, reason: str) -> None:
        self._reasons.append(reason)
        self._verdict = StartVerdict.REWOUND

    def start(self, position: SourceRange | None, replay: SourceRange | None) -> Start:
        if self._verdict is not None:
            return Start(position, replay, self._verdict, "; ".join(self._reasons))
        if position is None:
            return Start(None, replay, StartVerdict.NEW, "the table has nothing of this pipeline")
        return Start(position, replay, StartVerdict.IN_STEP, "nothing was left open")


def _recover(
    state: FoundInstant,
    coordination: Coordination,
    writer: InstantWriter,
    commit: Callable[[OpenInstant], object],
    found: _Findings,
) -> None:
    """Do what must be done with an instant of an earlier attempt."""
    request_time = state.request_time
    step, why = verdict(state)
    log.info("recovering", extra={"instant": request_time, "verdict": step.value, "reason": why})
    begun = None if state.begun is None else state.begun.source_range
    instant = OpenInstant(request_time, list(state.ledgers), begun)
    match step:
        case Verdict.FORGET:
            coordination.mark_done(request_time)
        case Verdict.COMMIT:
            try:
                commit(instant)
            except InstantAborted as error:  # then its rows come again
                found.rewound(f"instant {request_time} was taken back: {error}")
            except PositionLost as error:  # so will those of the instants before it that are gone
                writer.removal.abort(request_time, str(error))
                found.rewound(f"instant {request_time} was taken back: {error}")
            else:
                found.resumed(f"instant {request_time} was completed: {why}")
        case Verdict.RESUME if found.open_instant is None:
            found.open_instant = instant
            found.resumed(f"instant {request_time} is gone on with: {why}")
        case Verdict.UNDO:
            writer.removal.undo(request_time, why)
            found.rewound(f"instant {request_time} was taken back: {why}")
        case _:
            writer.removal.abort(request_time, why)
            found.rewound(f"instant {request_time} was taken back: {why}")


def _goes_on(
    instant: OpenInstant, end: SourceRange | None, coordination: Coordination, standing: Iterable[str]
) -> bool:
    """Whether an open instant continues the table's position. Where the table has nothing, it must be the one that
    begins earliest of all that were ever begun.
    """
    first = instant.first
    if first is None:
        return True
    if end is None:
        begun = (coordination.intent(request_time, 1) for request_time in standing)
        return not any(each is not None and begins_after(first, before(each.source_range)) for each in begun)
    with suppress(RangeConflict):
        return relate(first, end) is Relation.NEXT
    return False
