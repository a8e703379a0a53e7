"""The objects by which processes agree about a compaction, in `.hoodie/.bucketingest/services/compaction/<n>/`.

    plan                        what is merged, before the compaction is requested
    go                          start: it was requested · void: nobody carries it out. One name, so it cannot be both
    round/<r>/opened            why, and what is known then
    round/<r>/claim/<k>/...     which executor works on the k-th chunk of operations: hints, see `services.pods.claims`
    round/<r>/result/<k>        statistics of the base files of the k-th chunk
    round/<r>/decision          completion time and bytes of the completed file · closed
    done                        how it ended: nothing is left to do but to delete late files

All but claims are created if absent and never change, so of two processes exactly one decides. The numbers n and r
count up by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.services.compaction.records import (
    Decided,
    End,
    OperationResult,
    PlanRecord,
    Round,
    decode_results,
    encode_results,
)
from bucketingest.services.numbered_objects import NumberedObjects

ROOT: Final = f"{OWN_DIRECTORY}/services/compaction"
_START, _VOID = b"start", b"void"


class CompactionJournal(NumberedObjects):
    """Reads and writes the objects of a table's compactions."""

    ROOT = ROOT

    def put_plan(self, number: int, plan: PlanRecord) -> bool:
        """Record a plan; False if the number is taken by another one."""
        content = plan.encode()
        return self._create(number, "plan", content) == content

    def plan(self, number: int) -> PlanRecord | None:
        """The plan; None if there is none. Raises NewerFormat and InvalidTable."""
        content = self._get(number, "plan")
        return None if content is None else PlanRecord.decode(content, self.path(number, "plan"))

    def put_go(self, number: int, *, start: bool) -> bool:
        """Record whether the compaction may be carried out, unless that is recorded; returns what is."""
        return self._create(number, "go", _START if start else _VOID) == _START

    def go(self, number: int) -> bool | None:
        """Whether it may be carried out; None until that is recorded."""
        content = self._get(number, "go")
        return None if content is None else content == _START

    def open_round(self, number: int, round_number: int, opened: Round) -> Round:
        """Open a round, or read what another process opened under its number."""
        name = _in_round(round_number, "opened")
        return Round.decode(self._create(number, name, opened.encode()), self.path(number, name))

    def newest_round(self, number: int) -> tuple[int, Round | None]:
        """Number and content of the newest round; 0 and None before the first, and while the objects are deleted."""
        directories = self._storage.list_level(self.path(number, "round")).directories
        names = (path.rpartition("/")[2] for path in directories)
        newest = max((int(name) for name in names if name.isdecimal()), default=0)
        if not newest:
            return 0, None
        name = _in_round(newest, "opened")
        content = self._get(number, name)
        return (0, None) if content is None else (newest, Round.decode(content, self.path(number, name)))

    def put_results(self, number: int, round_number: int, chunk: int, results: Sequence[OperationResult]) -> None:
        """Record the results of a chunk, unless they are recorded."""
        self._create(number, _in_round(round_number, f"result/{chunk}"), encode_results(results))

    def result_chunks(self, number: int, round_number: int) -> set[int]:
        """The chunks that have results."""
        objects = self._storage.list_level(self.path(number, _in_round(round_number, "result"))).objects
        return {int(info.path.rpartition("/")[2]) for info in objects}

    def results(self, number: int, round_number: int, chunk: int) -> tuple[OperationResult, ...]:
        """The results of a chunk. Raises NotFound and InvalidTable."""
        path = self.path(number, _in_round(round_number, f"result/{chunk}"))
        return decode_results(self._storage.get(path), path)

    def decide(self, number: int, round_number: int, wanted: Decided) -> Decided:
        """End a round, or read how it was ended. The answer is final."""
        name = _in_round(round_number, "decision")
        return Decided.decode(self._create(number, name, wanted.encode()), self.path(number, name))

    def decision(self, number: int, round_number: int) -> Decided | None:
        """How a round ended; None until then."""
        name = _in_round(round_number, "decision")
        content = self._get(number, name)
        return None if content is None else Decided.decode(content, self.path(number, name))

    def mark_done(self, number: int, end: End) -> End:
        """Record how the compaction ended, unless that is recorded; returns what is."""
        return End(self._create(number, "done", end.encode()).decode())

    def done(self, number: int) -> End | None:
        """How it ended; None until then."""
        content = self._get(number, "done")
        return None if content is None else End(content.decode())


def _in_round(round_number: int, name: str) -> str:
    return f"round/{round_number}/{name}"
