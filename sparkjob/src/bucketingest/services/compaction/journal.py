"""The journal of a table's compactions, which may take several rounds: `services/compaction/<n>/`, and

go                          start: it was requested · void: nobody carries it out. One name, so it cannot be both
round/<r>/opened            why, and what is known then
round/<r>/claim/<k>/...     which executor works on the k-th chunk of operations: hints, see `services.pods.claims`
"""

from __future__ import annotations

from bucketingest.services.compaction.records import PlanRecord, Round
from bucketingest.services.protocol.journal import ServiceJournal

_START, _VOID = b"start", b"void"


class CompactionJournal(ServiceJournal[PlanRecord]):
    """Reads and writes the objects of a table's compactions."""

    SERVICE = "compaction"
    PLAN = PlanRecord

    def put_go(self, number: int, *, start: bool) -> bool:
        """Record whether the compaction may be carried out, unless that is recorded; returns what is."""
        return self._create(number, "go", _START if start else _VOID) == _START

    def go(self, number: int) -> bool | None:
        """Whether it may be carried out; None until that is recorded."""
        content = self._get(number, "go")
        return None if content is None else content == _START

    def open_round(self, number: int, round_number: int, opened: Round) -> Round:
        """Open a round, or read what another process opened under its number."""
        name = f"round/{round_number}/opened"
        return Round.decode(self._create(number, name, opened.encode()), self.path(number, name))

    def newest_round(self, number: int) -> tuple[int, Round | None]:
        """Number and content of the newest round; 0 and None before the first, and while the objects are deleted."""
        directories = self._storage.list_level(self.path(number, "round")).directories
        names = (path.rpartition("/")[2] for path in directories)
        newest = max((int(name) for name in names if name.isdecimal()), default=0)
        name = f"round/{newest}/opened"
        content = self._get(number, name) if newest else None
        return (0, None) if content is None else (newest, Round.decode(content, self.path(number, name)))
