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
from bucketingest.services.numbered_objects import NumberedObjects
from bucketingest.services.regroup.records import MergeEnd, MergePlan, NewGroupResult, decode_results, encode_results

ROOT: Final = f"{OWN_DIRECTORY}/services/regroup"


class MergeJournal(NumberedObjects):
    """Reads and writes the objects of a table's merges of file groups."""

    ROOT = ROOT

    def put_plan(self, number: int, plan: MergePlan) -> bool:
        """Record a plan; False if the number is taken by another one."""
        content = plan.encode()
        return self._create(number, "plan", content) == content

    def plan(self, number: int) -> MergePlan | None:
        """The plan; None if there is none. Raises NewerFormat and InvalidTable."""
        content = self._get(number, "plan")
        return None if content is None else MergePlan.decode(content, self.path(number, "plan"))

    def put_results(self, number: int, results: Sequence[NewGroupResult]) -> None:
        """Record the results, unless they are recorded."""
        self._create(number, "result", encode_results(results))

    def results(self, number: int) -> tuple[NewGroupResult, ...] | None:
        """The results; None until they are recorded. Raises InvalidTable."""
        content = self._get(number, "result")
        return None if content is None else decode_results(content, self.path(number, "result"))

    def decide(self, number: int, wanted: Decided) -> Decided:
        """Decide, or read what was decided. The answer is final."""
        return Decided.decode(self._create(number, "decision", wanted.encode()), self.path(number, "decision"))

    def decision(self, number: int) -> Decided | None:
        """What was decided; None until then."""
        content = self._get(number, "decision")
        return None if content is None else Decided.decode(content, self.path(number, "decision"))

    def mark_done(self, number: int, end: MergeEnd) -> MergeEnd:
        """Record how it ended, unless that is recorded; returns what is."""
        return MergeEnd(self._create(number, "done", end.value.encode()).decode())

    def done(self, number: int) -> MergeEnd | None:
        """How it ended; None until then."""
        content = self._get(number, "done")
        return None if content is None else MergeEnd(content.decode())

    def objects(self) -> dict[int, dict[str, datetime]]:
        """Number of each merge -> its objects, and when each was created by the store's clock: one listing."""
        found: dict[int, dict[str, datetime]] = {}
        for info in self._storage.list(ROOT):
            number, _, name = info.path.removeprefix(f"{ROOT}/").partition("/")
            if number.isdecimal():
                found.setdefault(int(number), {})[name] = info.modified
        return dict(sorted(found.items()))
