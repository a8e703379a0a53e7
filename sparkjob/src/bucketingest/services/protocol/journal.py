"""The objects by which processes agree about a table service, in `.hoodie/.bucketingest/services/<service>/<n>/`.

    plan                            what is done, before it is begun
    result/<k>                      what became of the k-th chunk of its operations
    decision                        completion time and bytes of the completed file · it is never committed
    done                            how it ended: nothing is left to do but to delete late files

A service that may have to do it again has results and decisions in `round/<r>/`. All are created if absent and never
change, so of two processes exactly one decides. The numbers n and r count up by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.services.protocol.records import End, Result, decode_results, encode_results
from bucketingest.storage import Storage, create_or_get, get_if_there, remove_directories
from bucketingest.write.instants.records import Decision, decision_bytes, decision_of

KEPT: Final = 3
"""Newest numbers of a service whose objects stay."""
KEPT_FOR: Final = timedelta(hours=24)
"""Since `done`: so long the objects of the others stay, longer than any process may run or be paused."""


class Plan(Protocol):
    """What a service records before it begins."""

    def encode(self) -> bytes:
        """As it is stored."""
        ...


PlanT = TypeVar("PlanT", bound=Plan)


class Decisions:
    """What one service of a table decided, and how that ended. `round_number`: 0 for a service without rounds."""

    SERVICE: ClassVar[str]

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.root = f"{OWN_DIRECTORY}/services/{self.SERVICE}"

    def numbers(self) -> list[int]:
        """Numbers that still have objects, ascending."""
        names = (path.rpartition("/")[2] for path in self._storage.list_level(self.root).directories)
        return sorted(int(name) for name in names if name.isdecimal())

    def objects(self) -> dict[int, dict[str, datetime]]:
        """Each number's objects, and when each was created by the store's clock, ascending: one listing."""
        found: dict[int, dict[str, datetime]] = {}
        for info in self._storage.list(self.root):
            number, _, name = info.path.removeprefix(f"{self.root}/").partition("/")
            if number.isdecimal():
                found.setdefault(int(number), {})[name] = info.modified
        return dict(sorted(found.items()))

    def path(self, number: int, name: str) -> str:
        """Path of an object, relative to the table's root."""
        return f"{self.root}/{number:08d}/{name}"

    def decide(self, number: int, wanted: Decision, round_number: int = 0) -> Decision:
        """Decide, or read what was decided. The answer is final."""
        name = _in_round(round_number, "decision")
        return decision_of(self._create(number, name, decision_bytes(wanted)), self.path(number, name))

    def decision(self, number: int, round_number: int = 0) -> Decision | None:
        """What was decided; None until then."""
        name = _in_round(round_number, "decision")
        content = self._get(number, name)
        return None if content is None else decision_of(content, self.path(number, name))

    def mark_done(self, number: int, end: End) -> End:
        """Record how it ended, unless that is recorded; returns what is."""
        return End(self._create(number, "done", end.encode()).decode())

    def done(self, number: int) -> End | None:
        """How it ended; None until then."""
        content = self._get(number, "done")
        return None if content is None else End(content.decode())

    def expired(self, now: datetime) -> list[int]:
        """Numbers whose objects nobody needs any more."""
        objects = self.objects()
        old = list(objects)[:-KEPT]
        return [number for number in old if "done" in objects[number] and now - objects[number]["done"] > KEPT_FOR]

    def forget(self, number: int) -> None:
        """Delete the objects, `done` last: what a crash leaves still says that nothing is left to do."""
        last, folder = self.path(number, "done"), self.path(number, "").rstrip("/")
        self._storage.delete_many([info.path for info in self._storage.list(folder) if info.path != last])
        self._storage.delete(last)
        remove_directories(self._storage, folder)

    def _create(self, number: int, name: str, content: bytes) -> bytes:
        """Create an object, unless it is there; its content."""
        return create_or_get(self._storage, self.path(number, name), content)

    def _get(self, number: int, name: str) -> bytes | None:
        """An object's content; None if it is not there."""
        return get_if_there(self._storage, self.path(number, name))


class ServiceJournal(Decisions, Generic[PlanT]):
    """All objects of one service of a table."""

    PLAN: ClassVar[Any]
    """Has `decode`, as `encode` made it."""

    def put_plan(self, number: int, plan: PlanT) -> bool:
        """Record a plan; False if the number is taken by another one."""
        content = plan.encode()
        return self._create(number, "plan", content) == content

    def plan(self, number: int) -> PlanT | None:
        """The plan; None if there is none. Raises NewerFormat and InvalidTable."""
        content = self._get(number, "plan")
        return None if content is None else self.PLAN.decode(content, self.path(number, "plan"))

    def put_results(self, number: int, results: Sequence[Result], *, round_number: int = 0, chunk: int = 0) -> None:
        """Record the results of a chunk, unless they are recorded."""
        self._create(number, _in_round(round_number, f"result/{chunk}"), encode_results(results))

    def result_chunks(self, number: int, round_number: int = 0) -> set[int]:
        """The chunks that have results."""
        objects = self._storage.list_level(self.path(number, _in_round(round_number, "result"))).objects
        return {int(info.path.rpartition("/")[2]) for info in objects}

    def results(self, number: int, round_number: int = 0, chunk: int = 0) -> tuple[Result, ...] | None:
        """The results of a chunk; None until they are recorded. Raises NewerFormat and InvalidTable."""
        name = _in_round(round_number, f"result/{chunk}")
        content = self._get(number, name)
        return None if content is None else decode_results(content, self.path(number, name))


def _in_round(round_number: int, name: str) -> str:
    return f"round/{round_number}/{name}" if round_number else name
