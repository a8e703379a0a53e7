"""The start of an attempt: instants that earlier attempts left are finished, resumed or rolled back, then the position
is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import InstantAborted, PositionLost, RangeConflict
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.lifecycle import InstantWriter
from bucketingest.write.instants.open_instant import OpenInstant
from bucketingest.write.instants.position import read_position
from bucketingest.write.instants.records import AbortDecision
from bucketingest.write.instants.source_range import Relation, SourceRange, before, begins_after, relate
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.pipeline_names import pipelines
from bucketingest.write.recovery.decide import Choice, Policy, Step, decide
from bucketingest.write.recovery.execute import InstantExecutor
from bucketingest.write.recovery.facts import FactReader, Facts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of the table after recovery: earlier attempts have left at most one open instant."""

    open_instant: OpenInstant | None
    start: Start


def settle(
    storage: Storage,
    journal: Journal,
    writer: InstantWriter,
    commit: Callable[[OpenInstant], object],
    resumed: Callable[[Facts], OpenInstant],
) -> Settled:
    """Finish, resume or roll back every instant that earlier attempts left. May be repeated after a failure.

    `resumed` makes it this attempt's instant, `commit` commits it.
    """
    findings = _Findings()
    writer.executor.remove_reappeared()
    objects_by_instant = journal.objects_by_instant()
    # First: another writer's archival may have made late files visible, and what follows reads the table.
    swept = [request_time for request_time, objects in objects_by_instant.items() if {"done", "aborted"} <= objects]
    writer.executor.delete_late_files(swept, journal.aborted())
    for request_time, objects in objects_by_instant.items():
        if "done" not in objects:
            found = _facts(storage, journal, request_time, objects)
            if found is not None:
                instant = resumed(found)
                _recover(decide(found, Policy.RESUME), instant, writer.executor, commit, findings)
    writer.executor.remove_reappeared()  # also what was put back behind an instant that was settled only now
    writer.executor.letters.discard_staged()
    read = read_position(storage, writer.refresh(), journal)
    if read.lost:
        findings.rewound(f"rows that are not in the table are ingested again, after instants {', '.join(read.lost)}")
    if read.superseded:
        for request_time, objects in journal.objects_by_instant().items():
            if request_time in read.superseded and "done" in objects and "withdrawn" not in objects:
                journal.mark_withdrawn(request_time)  # for later starts, which find no hole
    writer.executor.letters.withdraw(read.superseded)
    left = findings.open_instant
    if left is not None and not _continues(left, read.end, journal, objects_by_instant):
        why = "it does not start at the committed source position"
        writer.executor.abort(left.request_time, why)
        findings.rewound(f"instant {left.request_time} was rolled back: {why}")
        left = None
    position = (None if left is None else left.position) or read.end
    return Settled(left, findings.start(position, None if left is None else left.started))


def settle_others(storage: Storage, identity: WriterIdentity, claimant: str, *, has_state: bool) -> str:
    """Settle instants that pipelines of other names left, for example before this one was renamed. This job holds the
    table's lease, so no other job works on them; if that pipeline starts again, it ingests their rows again.

    `has_state`: keys are looked up in a state, so an instant that is decided to commit must be complete before a new
    key gets a file group: it may have the same key. Raises what prevents that.

    Returns the newest time that one of them claimed, or "": a paused process may still delete its files.
    """
    newest = ""
    for pipeline in pipelines(storage):
        if pipeline != identity.pipeline:
            objects_by_instant = Journal(storage, pipeline).objects_by_instant()
            newest = max((newest, *objects_by_instant))
            try:
                _settle_other(storage, objects_by_instant, replace(identity, pipeline=pipeline), claimant)
            except BucketIngestError as error:  # such as missing rights for its dead-letter place
                extra = {"pipeline": pipeline, "reason": str(error)}
                log.error("instants of another pipeline stay until the next start", extra=extra)  # noqa: TRY400
                if has_state and _will_complete(storage, pipeline):
                    raise
    return newest


def _will_complete(storage: Storage, pipeline: str) -> bool:
    """Whether one of the pipeline's instants is decided to commit, and can be."""
    journal, reader = Journal(storage, pipeline), FactReader(storage, Timeline.load(storage))
    undone = [instant for instant, objects in journal.objects_by_instant().items() if "done" not in objects]
    found = [reader.facts(instant, pipeline) for instant in undone]
    return any(each.pipeline == pipeline and decide(each, Policy.ROLL_BACK).step is Step.COMPLETE for each in found)


def _settle_other(
    storage: Storage, objects_by_instant: Mapping[str, frozenset[str]], identity: WriterIdentity, claimant: str
) -> None:
    journal = Journal(storage, identity.pipeline)
    undone = [request_time for request_time, objects in objects_by_instant.items() if "done" not in objects]
    aborted = [request_time for request_time, objects in objects_by_instant.items() if {"done", "aborted"} <= objects]
    if not undone and not aborted:
        return
    identity = replace(identity, epoch=journal.claim_epoch(claimant))
    executor = InstantExecutor(storage, journal, identity)
    for request_time in undone:
        found = _facts(storage, journal, request_time, objects_by_instant[request_time])
        if found is None:
            continue
        choice = decide(found, Policy.ROLL_BACK)
        extra = {"instant": request_time, "pipeline": identity.pipeline, "verdict": choice.step.value}
        log.warning("another pipeline left an instant", extra=extra | {"reason": choice.reason})
        with suppress(InstantAborted, PositionLost):  # its own next start ingests the rows again
            executor.carry_out(choice)
    executor.delete_late_files(aborted)
    executor.forget_old()


def _facts(storage: Storage, journal: Journal, request_time: str, objects: Collection[str]) -> Facts | None:
    """None if the instant is not the pipeline's: it claimed the time, but another writer used it first. Or later, when
    the pipeline's was rolled back: then a task may still write a file of it, which later starts sweep.
    """
    found = FactReader(storage, Timeline.load(storage)).facts(request_time, journal.pipeline)
    if found.pipeline == journal.pipeline:
        return found
    why = "another writer took its time"
    log.warning("left alone", extra={"instant": request_time, "reason": why})
    journal.decide(request_time, AbortDecision(why))
    journal.mark_done(request_time, aborted=any(name.startswith("intent/") for name in objects))
    return None


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
    choice: Choice,
    instant: OpenInstant,
    executor: InstantExecutor,
    commit: Callable[[OpenInstant], object],
    findings: _Findings,
) -> None:
    """Carry out the choice for an instant of an earlier attempt."""
    found, why = choice.found, choice.reason
    log.info("recovering", extra={"instant": found.request_time, "verdict": choice.step.value, "reason": why})
    try:
        if choice.step is Step.COMPLETE:
            commit(instant)
            findings.resumed(f"instant {found.request_time} was completed: {why}")
        elif choice.step is Step.RESUME and findings.open_instant is None:
            findings.open_instant = instant
            findings.resumed(f"instant {found.request_time} is resumed: {why}")
        else:
            executor.carry_out(choice)
            if choice.step is not Step.CLOSE:
                findings.rewound(f"instant {found.request_time} was rolled back: {why}")
    except InstantAborted as error:  # its rows come again
        findings.rewound(f"instant {found.request_time} was rolled back: {error}")
    except PositionLost as error:  # its rows come again, after those of missing earlier instants
        executor.after_loss(found, str(error))
        findings.rewound(f"instant {found.request_time} is ingested again: {error}")


def _continues(
    instant: OpenInstant, end: SourceRange | None, journal: Journal, objects_by_instant: Iterable[str]
) -> bool:
    """Whether an open instant continues the table's position. If the table has nothing, it must be the one with the
    earliest range of all that were ever started.
    """
    first = instant.first
    if first is None:
        return True
    if end is None:
        first_ranges = (journal.intent(request_time, 1) for request_time in objects_by_instant)
        return not any(each is not None and begins_after(first, before(each.source_range)) for each in first_ranges)
    with suppress(RangeConflict):
        return relate(first, end) is Relation.NEXT
    return False
