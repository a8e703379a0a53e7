"""Another writer on the table that behaves as Hudi's own: its commits, and its rollbacks of pending instants.

It follows Hudi 1.2.0's order of steps. It finds the files of a failed instant by markers, as Hudi does, and it rolls
back every pending instant, even if another writer works on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.naming import parse_data_file_name
from bucketingest.hudi.rollback.markers import delete_markers, marker_directory
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackMetadata, RollbackPlan
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested, path_of
from bucketingest.storage import NotFound
from support.simulation.store import Objects
from support.simulation.view import View
from support.simulation.world import Actor, World
from support.simulation.writers.commits import commit
from support.simulation.writers.visit import Others, Visit


@dataclass(frozen=True)
class HudiHabits:
    """What this writer does on a visit."""

    eager: bool
    """Rolls every pending instant back, as the single writer does by default."""
    commits: bool
    """Writes rows of its own: of keys that the pipeline does not have, in the pipeline's buckets."""
    late_rollbacks: bool
    """Its rollbacks continue even if the instant completes meanwhile, as Hudi's do."""


class HudiWriter:
    """One visit of another writer."""

    def __init__(self, name: str, world: World, table: Objects, habits: HudiHabits, others: Others) -> None:
        self.name = name
        self._world = world
        self._table = table
        self._habits = habits
        self._visit = Visit(name, world, table, others)
        self._rng = self._visit.rng

    def live(self, actor: Actor) -> None:
        """Runs the writer, until it is done, fails, or dies."""
        storage = View(self._table, self._world, actor)
        try:
            if not storage.exists(".hoodie/hoodie.properties"):
                return
            if self._habits.eager:
                self._roll_back_pending(actor, storage)
            if self._habits.commits:
                commit(self._visit, actor, self._visit.view(actor))
        except BucketIngestError as error:
            self._world.note(self.name, "ends with", f"{type(error).__name__}: {error}")

    def _roll_back_pending(self, actor: Actor, storage: View) -> None:
        for instant in Timeline.load(storage).pending:
            if instant.action != DELTA_COMMIT:
                continue
            if self._habits.late_rollbacks:
                self._dawdle(actor)
                self._roll_back(actor, storage, instant.request_time)
            else:
                with self._world.atomically(actor):
                    if not self._is_decided(instant.request_time):
                        self._roll_back(actor, storage, instant.request_time)

    def _is_decided(self, instant: str) -> bool:
        """Whether the pipeline is between its decision and the completed file, or after it."""
        return any(
            f"/{instant}/decision" in path or path.startswith(f".hoodie/timeline/{instant}_")
            for path in self._table.objects
        )

    def _dawdle(self, actor: Actor) -> None:
        """Time for the instant to complete between two steps of its rollback."""
        if self._habits.late_rollbacks and self._rng.random() < 0.4:
            self._world.stall(actor, self._rng.choice((5, 15, 40)))

    def _roll_back(self, actor: Actor, storage: View, instant: str) -> None:
        self._world.note(self.name, "rolls back", instant)
        rollback_time, plan = self._pending_rollback(storage, instant) or self._plan(actor, storage, instant)
        self._dawdle(actor)
        create_inflight(storage, rollback_time, ROLLBACK)
        storage.delete_many([file.path for file in plan.files])
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete(path_of(Instant(instant, DELTA_COMMIT, state)))
        metadata = RollbackMetadata(rollback_time, plan).encode(storage.absolute)
        found = Timeline.load(storage).find(rollback_time, ROLLBACK)
        if found is None or not found.is_completed:
            complete(storage, rollback_time, self._visit.next_time(storage), metadata, ROLLBACK)
        delete_markers(storage, instant)
        heartbeat.stop(storage, instant)

    def _pending_rollback(self, storage: View, instant: str) -> tuple[str, RollbackPlan] | None:
        for pending in Timeline.load(storage).pending:
            if pending.action == ROLLBACK:
                path = path_of(Instant(pending.request_time, ROLLBACK, State.REQUESTED))
                try:
                    plan = RollbackPlan.decode(storage.get(path), path)
                except NotFound:
                    continue
                if plan.instant_time == instant:
                    return pending.request_time, plan
        return None

    def _plan(self, actor: Actor, storage: View, instant: str) -> tuple[str, RollbackPlan]:
        files = []
        for path in sorted(_marked_files(storage, instant)):
            partition_path, _, name = path.rpartition("/")
            parsed = parse_data_file_name(name)
            files.append(RollbackFile(partition_path, parsed.file_id if parsed else "", path))
        plan = RollbackPlan(instant, DELTA_COMMIT, tuple(files))
        self._visit.be_late(actor, self._visit.others.late_rollbacks, f"rolls {instant} back")
        rollback_time = self._visit.next_time(storage)
        create_requested(storage, rollback_time, ROLLBACK, plan.encode(storage.absolute))
        return rollback_time, plan


def _marked_files(storage: View, instant: str) -> set[str]:
    """As Hudi 1.2.0 reads markers: from lists if the type file is there, or a file that is no direct marker; else only
    the direct ones.
    """
    prefix = f"{marker_directory(instant)}/"
    names = [info.path.removeprefix(prefix) for info in storage.list(marker_directory(instant))]
    if all(".marker." in name for name in names):
        return {name.rpartition(".marker.")[0] for name in names}
    lists = [name for name in names if name.startswith("MARKERS") and name != "MARKERS.type"]
    lines = [line for name in lists for line in storage.get(prefix + name).decode().strip("\n").split("\n")]
    return {line.rpartition(".marker.")[0] for line in lines}
