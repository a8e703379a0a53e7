"""Processes of two releases that merge by different rules: a pipeline that is upgraded, or rolled back, while a
compaction is pending.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from types import ModuleType
from typing import Final

from bucketingest.services.compaction import facts, holder, propose, rounds
from bucketingest.services.merge import merge_group
from support.simulation.store import Objects

READ_IN: Final[tuple[ModuleType, ...]] = (facts, holder, merge_group, propose, rounds)
"""Where the version of a release's merge rules is read."""
VERSION: Final = "MERGE_VERSION"
_OPENED: Final = re.compile(r".*/services/compaction/(\d+)/round/\d+/opened")
_CHANGES: Final = 0.5
"""How often the processes of a schedule are not all of one release."""


class Releases:
    """The release of each process of a schedule; its executors are of the same. With random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"releases {seed}")
        self.differ = self._rng.random() < _CHANGES
        self._versions: dict[str, int] = {}

    def turn(self, actor: str) -> None:
        """It is this actor's turn, and no other's: all that runs now is of its release."""
        kind, _, rest = actor.partition(" ")
        if not self.differ or kind != "process":
            return
        process = rest.partition(" ")[0]
        version = self._versions.setdefault(process, self._rng.choice((1, 2)))
        for module in READ_IN:
            setattr(module, VERSION, version)


def compactions_of_two(table: Objects) -> int:
    """How many compactions had rounds of both releases."""
    gone = {path: stored for path, (stored, _) in table.deleted.items()}
    versions: defaultdict[str, set[int]] = defaultdict(set)
    for path, stored in (gone | table.objects).items():
        if match := _OPENED.fullmatch(path):
            versions[match[1]].add(json.loads(stored.content)["mergeVersion"])
    return sum(len(each) > 1 for each in versions.values())
