"""What the processes of a schedule share, and what the judge must know of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import Storage
from bucketingest.write.errors import ConflictingAttempt, FencedOut
from support.simulation.job.local_faults import LocalFaults
from support.simulation.outlasting import Outlasting
from support.simulation.source import DEFINITION
from support.simulation.spec import Row, Work
from support.simulation.store import Objects
from support.simulation.topic import Topic
from support.simulation.view import View
from support.simulation.world import Actor, World


@dataclass
class Surroundings:
    """The table, the places for dead letters, the source, and what Spark's checkpoints remember."""

    world: World
    table: Objects
    letters: Sequence[Objects]
    rows: list[Row]
    definition: TableDefinition = DEFINITION
    topic: Topic = field(default_factory=Topic)
    failures: list[str] = field(default_factory=list)
    assigned: defaultdict[tuple[str, int], list[Work]] = field(default_factory=lambda: defaultdict(list))
    """What was planned for each micro-batch of an instant, by each attempt."""
    checkpoints: dict[tuple[str, str | None, str], int] = field(default_factory=dict)
    """Checkpoint and range of a micro-batch -> its time in milliseconds, as long as the checkpoints are not lost."""
    pipeline: str = ""
    """Name of the pipeline that holds the table's lease."""
    holder: str = ""
    """Name of the process that holds it."""
    local: LocalFaults | None = None
    """What fails on the machines of its services."""
    outlasting: Outlasting | None = None
    """Which change of the pipeline comes hours later."""

    def view(self, actor: Actor) -> View:
        """The table as an actor of the pipeline sees it."""
        return View(self.table, self.world, actor, outlasting=self.outlasting)

    def assign(self, instant: str, sequence: int, work: Work) -> None:
        """Remember what an attempt will write."""
        self.assigned[instant, sequence].append(work)

    def check_conflict(self, error: ConflictingAttempt, instant: str, sequence: int) -> None:
        """Equal work gives equal files, however often it is done; other work may find that the names are taken, and so
        may work on an instant that is being rolled back.
        """
        instants = self.table.instants
        standing = instants.pending | instants.completed.keys()
        path = str(error).partition(" was written by ")[0].removeprefix(f"{self.table.url}/")
        if path not in self.table.objects and (".log." in path or path.endswith(".parquet")):
            return  # it was cleaned or rolled back meanwhile
        if instant in self.table.overtaken:
            return  # what another writer deleted of it has an empty file now
        if "the index's state is lost" in path:
            return  # the micro-batch is written again, in a new instant
        planned = {(w.numbers, w.fingerprint, w.transform, _time(w)) for w in self.assigned[instant, sequence]}
        if len(planned) == 1 and instant in standing - instants.rolled_back:
            self.world.violation(str(error))

    def check_lease(self, pipeline: str) -> None:
        """The table is leased to one pipeline at a time. Raises FencedOut."""
        if self.pipeline != pipeline:
            raise FencedOut(f"the table's lease went from {pipeline} to {self.pipeline}")

    def open_letters(self, url: str, actor: Actor, routes: Mapping[str, Storage]) -> Storage:
        """The place for dead letters that a URL of an earlier attempt names."""
        for place in self.letters:
            if url.rstrip("/") == place.url:
                return View(place, self.world, actor)
        return routes[url]


def _time(work: Work) -> int | None:
    return work.timestamp_ms if work.transform.regions == "time" else None
