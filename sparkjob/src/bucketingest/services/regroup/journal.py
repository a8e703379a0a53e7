"""The objects by which processes agree about a merge of file groups, in `.hoodie/.bucketingest/services/regroup/<n>/`.

    plan        what is merged, before anything is made
    result      the base files that were made: whoever made them has nothing more to do
    decision    completion time and bytes of the completed file · closed: it is void
    done        how it ended: nothing is left to do but to delete late files

All are created if absent and never change, so of two processes exactly one decides. The numbers n count up by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.services.compaction.records import Decided
from bucketingest.services.regroup.records import MergeEnd, MergePlan, NewGroupResult, decode_results, encode_results
from bucketingest.storage import Storage, create_or_get, get_if_there, remove_directories

ROOT: Final = f"{OWN_DIRECTORY}/services/regroup"


class MergeJournal:
    """Reads and writes the objects of a table's merges of file groups."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def numbers(self) -> list[int]:
        """Numbers of the merges that still have objects, ascending."""
        names = (path.rpartition("/")[2] for path in self._storage.list_level(ROOT).directories)
        return sorted(int(name) for name in names if name.isdecimal())

    def put_plan(self, number: int, plan: MergePlan) -> bool:
        """Record a plan; False if the number is taken by another one."""
        content = plan.encode()
        return create_or_get(self._storage, self.path(number, "plan"), content) == content

    def plan(self, number: int) -> MergePlan | None:
        """The plan; None if there is none. Raises NewerFormat and InvalidTable."""
        path = self.path(number, "plan")
        content = get_if_there(self._storage, path)
        return None if content is None else MergePlan.decode(content, path)

    def put_results(self, number: int, results: Sequence[NewGroupResult]) -> None:
        """Record the results, unless they are recorded."""
        create_or_get(self._storage, self.path(number, "result"), encode_results(results))

    def results(self, number: int) -> tuple[NewGroupResult, ...] | None:
        """The results; None until they are recorded. Raises InvalidTable."""
        path = self.path(number, "result")
        content = get_if_there(self._storage, path)
        return None if content is None else decode_results(content, path)

    def decide(self, number: int, wanted: Decided) -> Decided:
        """Decide, or read what was decided. The answer is final."""
        path = self.path(number, "decision")
        return Decided.decode(create_or_get(self._storage, path, wanted.encode()), path)

    def decision(self, number: int) -> Decided | None:
        """What was decided; None until then."""
        path = self.path(number, "decision")
        content = get_if_there(self._storage, path)
        return None if content is None else Decided.decode(content, path)

    def mark_done(self, number: int, end: MergeEnd) -> MergeEnd:
        """Record how it ended, unless that is recorded; returns what is."""
        return MergeEnd(create_or_get(self._storage, self.path(number, "done"), end.value.encode()).decode())

    def done(self, number: int) -> MergeEnd | None:
        """How it ended; None until then."""
        content = get_if_there(self._storage, self.path(number, "done"))
        return None if content is None else MergeEnd(content.decode())

    def objects(self) -> dict[int, dict[str, datetime]]:
        """Number of each merge -> its objects, and when each was created by the store's clock: one listing."""
        found: dict[int, dict[str, datetime]] = {}
        for info in self._storage.list(ROOT):
            number, _, name = info.path.removeprefix(f"{ROOT}/").partition("/")
            if number.isdecimal():
                found.setdefault(int(number), {})[name] = info.modified
        return dict(sorted(found.items()))

    def forget(self, number: int) -> None:
        """Delete the objects, `done` last: what a crash leaves still says that nothing is left to do."""
        last, folder = self.path(number, "done"), self.path(number, "").rstrip("/")
        self._storage.delete_many([info.path for info in self._storage.list(folder) if info.path != last])
        self._storage.delete(last)
        remove_directories(self._storage, folder)

    def path(self, number: int, name: str) -> str:
        """Path of an object of the merge, relative to the table's root."""
        return f"{ROOT}/{number:08d}/{name}"
