"""The source is replaced by a new, shorter one: offsets start at 0 again, and the pipeline must not confuse its rows
with those of the old one.
"""

from __future__ import annotations

from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.open_table import OpenTable
from support.simulation.job.process import Process
from support.simulation.topic import offsets, position
from support.simulation.world import Actor


class NewTopicProcess(Process):
    """A process under failOnDataLoss=false: Spark's first micro-batch goes back from the old position to the new end,
    and the next ones continue from there.
    """

    new_end = 1
    """Rows that the new topic has at first."""

    def _query(self, actor: Actor, opened: OpenTable, coordinator: InstantCoordinator) -> None:
        start = coordinator.start()
        known = 0 if start.position is None else offsets(start.position.end)[0]
        at, end = known, min(self.new_end, known - 1)
        while end <= known:
            self._run(actor, opened, coordinator, self._next(position({0: at}), position({0: end})))
            at, end = end, end + 3
        self.finished = True
