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
from bucketingest.storage import Storage, create_or_get, get_if_there, remove_directories

ROOT: Final = f"{OWN_DIRECTORY}/services/compaction"
_START, _VOID = b"start", b"void"


class CompactionJournal:
    """Reads and writes the objects of a table's compactions."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def numbers(self) -> list[int]:
        """Numbers of the compactions that still have objects, ascending."""
        names = (path.rpartition("/")[2] for path in self._storage.list_level(ROOT).directories)
        return sorted(int(name) for name in names if name.isdecimal())

    def put_plan(self, number: int, plan: PlanRecord) -> bool:
        """Record a plan; False if the number is taken by another one."""
        content = plan.encode()
        return create_or_get(self._storage, self.path(number, "plan"), content) == content

    def plan(self, number: int) -> PlanRecord | None:
        """The plan; None if there is none. Raises NewerFormat and InvalidTable."""
        path = self.path(number, "plan")
        content = get_if_there(self._storage, path)
        return None if content is None else PlanRecord.decode(content, path)

    def put_go(self, number: int, *, start: bool) -> bool:
        """Record whether the compaction may be carried out, unless that is recorded; returns what is."""
        return create_or_get(self._storage, self.path(number, "go"), _START if start else _VOID) == _START

    def go(self, number: int) -> bool | None:
        """Whether it may be carried out; None until that is recorded."""
        content = get_if_there(self._storage, self.path(number, "go"))
        return None if content is None else content == _START

    def open_round(self, number: int, round_number: int, opened: Round) -> Round:
        """Open a round, or read what another process opened under its number."""
        path = self._round(number, round_number, "opened")
        return Round.decode(create_or_get(self._storage, path, opened.encode()), path)

    def newest_round(self, number: int) -> tuple[int, Round | None]:
        """Number and content of the newest round; 0 and None before the first, and while the objects are deleted."""
        directories = self._storage.list_level(self.path(number, "round")).directories
        names = (path.rpartition("/")[2] for path in directories)
        newest = max((int(name) for name in names if name.isdecimal()), default=0)
        if not newest:
            return 0, None
        path = self._round(number, newest, "opened")
        content = get_if_there(self._storage, path)
        return (0, None) if content is None else (newest, Round.decode(content, path))

    def put_results(self, number: int, round_number: int, chunk: int, results: Sequence[OperationResult]) -> None:
        """Record the results of a chunk, unless they are recorded."""
        create_or_get(self._storage, self._round(number, round_number, f"result/{chunk}"), encode_results(results))

    def result_chunks(self, number: int, round_number: int) -> set[int]:
        """The chunks that have results."""
        objects = self._storage.list_level(self._round(number, round_number, "result")).objects
        return {int(info.path.rpartition("/")[2]) for info in objects}

    def results(self, number: int, round_number: int, chunk: int) -> tuple[OperationResult, ...]:
        """The results of a chunk. Raises NotFound and InvalidTable."""
        path = self._round(number, round_number, f"result/{chunk}")
        return decode_results(self._storage.get(path), path)

    def decide(self, number: int, round_number: int, wanted: Decided) -> Decided:
        """End a round, or read how it was ended. The answer is final."""
        path = self._round(number, round_number, "decision")
        return Decided.decode(create_or_get(self._storage, path, wanted.encode()), path)

    def decision(self, number: int, round_number: int) -> Decided | None:
        """How a round ended; None until then."""
        path = self._round(number, round_number, "decision")
        content = get_if_there(self._storage, path)
        return None if content is None else Decided.decode(content, path)

    def mark_done(self, number: int, end: End) -> End:
        """Record how the compaction ended, unless that is recorded; returns what is."""
        return End(create_or_get(self._storage, self.path(number, "done"), end.encode()).decode())

    def done(self, number: int) -> End | None:
        """How it ended; None until then."""
        content = get_if_there(self._storage, self.path(number, "done"))
        return None if content is None else End(content.decode())

    def forget(self, number: int) -> None:
        """Delete the objects, `done` last: what a crash leaves still says that nothing is left to do."""
        last, folder = self.path(number, "done"), self.path(number, "").rstrip("/")
        self._storage.delete_many([info.path for info in self._storage.list(folder) if info.path != last])
        self._storage.delete(last)
        remove_directories(self._storage, folder)

    def path(self, number: int, name: str) -> str:
        """Path of an object of the compaction, relative to the table's root."""
        return f"{ROOT}/{number:08d}/{name}"

    def _round(self, number: int, round_number: int, name: str) -> str:
        return self.path(number, f"round/{round_number}/{name}")
