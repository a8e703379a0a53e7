"""What each of the other writers needs: a view of the table, times, the lock, and a record of what it did."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import AlreadyExists
from support.simulation.judge.reader import Snapshot
from support.simulation.outlasting import Late
from support.simulation.records import container
from support.simulation.spec import Row
from support.simulation.store import Objects
from support.simulation.view import View
from support.simulation.world import Actor, World

_DAWDLES: Final = (10, 40, 120)


@dataclass
class Others:
    """What other writers did in a schedule, and which work they must not do at the same time."""

    rows: dict[str, tuple[str, Row]] = field(default_factory=dict)
    """Instant -> its writer, and the row that is in the table if the instant completed."""
    requested: set[str] = field(default_factory=set)
    """Times of compactions, cleans and the like."""
    busy: set[str] = field(default_factory=set)
    partition_filled: bool = False
    state: bool = False
    """Whether the table has no buckets."""
    replaced: set[tuple[str, str]] = field(default_factory=set)
    """Partition and file id of file groups that were replaced when another writer looked."""

    late_rollbacks: Late | None = None
    """What comes between the look at pending instants and the rollback's request."""
    late_plans: Late | None = None
    """What comes between the plan of a compaction and its request, without a lock."""
    late_cleans: Late | None = None
    """What comes between the plan to delete a partition and its deletion."""

    @contextmanager
    def alone(self, what: str) -> Iterator[bool]:
        """Whether no other writer does this work; Hudi prevents two of one kind by its lock and its heartbeats."""
        if what in self.busy:
            yield False
            return
        self.busy.add(what)
        try:
            yield True
        finally:
            self.busy.discard(what)


class Visit:
    """One visit of another writer."""

    def __init__(
        self, name: str, world: World, table: Objects, others: Others, *, locks: bool = True, aim: float = 0
    ) -> None:
        self.name = name
        self.world = world
        self.table = table
        self.others = others
        self.locks = locks
        """False: it loads the timeline, waits, and only then chooses its time."""
        self.aim = aim
        """How often a change of storage by it is hit by a fault."""
        self.rng = random.Random(world.rng.random())
        self.beats = self.rng.random() < 0.5
        """Whether its compactions have a heartbeat."""

    def view(self, actor: Actor) -> View:
        """The table's storage. Its requests are never delayed for long: a real writer has other fences."""
        return View(self.table, self.world, actor, lands_late=False, aim=self.aim)

    @contextmanager
    def lock(self, actor: Actor) -> Iterator[None]:
        """Hudi's lock, where this writer takes it."""
        with self.world.atomically(actor) if self.locks else nullcontext():
            yield

    def look(self, storage: View) -> Snapshot:
        """The current table."""
        storage.exists(".hoodie/hoodie.properties")
        return self.table.snapshot

    def dawdle(self, actor: Actor) -> None:
        """Without a lock there is time between one look and the next step."""
        if not self.locks:
            self.world.stall(actor, self.rng.choice(_DAWDLES))

    def be_late(self, actor: Actor, late: Late | None, what: str) -> None:
        """Stand still until as much has happened as comes in between, if anything does."""
        if late is not None and not actor.atomic:
            self.world.wait(actor, late.begin(self.world, f"{self.name}: {what}"))

    def next_time(self, storage: View) -> str:
        """A time after every one on the timeline; Hudi's waits for its clock instead, under the lock."""
        now = format_time(self.world.now())
        newest = max(Timeline.load(storage).times, default="")
        # More than the one millisecond of other writers: without a lock two would choose the same time.
        after = timedelta(milliseconds=self.rng.randint(2, 9))
        time = max(now, format_time(parse_time(newest) + after) if newest else now)
        # Two instants would have one name; also, the judge finds an instant's writer by its time.
        chosen = self.others.requested | self.others.rows.keys()
        while time in chosen or any(f"/{time}" in path for path in self.table.objects):
            time = format_time(parse_time(time) + timedelta(milliseconds=1))
        return time

    def request(self, storage: View, name: str, schema: str, content: Callable[[str], dict[str, Any]]) -> str | None:
        """Put an instant with a plan on the timeline; its time, or None if the name is taken."""
        time = self.next_time(storage)
        self.others.requested.add(time)
        return time if self.create(storage, f"{time}.{name}.requested", container(schema, content(time))) else None

    @staticmethod
    def create(storage: View, name: str, content: bytes = b"") -> bool:
        """Put a file on the timeline; False if it is there."""
        try:
            storage.create(f".hoodie/timeline/{name}", content)
        except AlreadyExists:
            return False
        return True
