"""What must not be there at the end: files of instants that never completed, pending instants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from support.simulation.judge.reader import Snapshot

_HOUSEKEEPING: Final = (".hoodie/.temp/", ".hoodie/.heartbeat/")


def leftovers(
    objects: Mapping[str, bytes], table: Snapshot, foreign_instants: AbstractSet[str], *, others: bool, renamed: bool
) -> Iterator[str]:
    """Nothing of an instant that did not complete, nothing pending."""
    instants = table.instants
    for file in table.files:
        if file.instant not in instants.completed and file.instant not in foreign_instants:
            yield f"an orphan: {file.path}"
    for instant in instants.pending - foreign_instants:
        yield f"instant {instant} is still pending"
    if not others:  # other writers may die at any step: their next start, or the rollback command, finishes their work
        for instant in instants.pending_rollbacks:
            yield f"a rollback of {instant} is still pending: it makes every write of Hudi's single writer fail"
    # A late twin's marker of a completed instant is harmless: archival deletes it with the instant (Hudi 1.2.0).
    tolerated = foreign_instants | instants.completed.keys()
    for path in () if renamed else objects:  # files that late tasks of the old name leave are harmless
        if path.startswith(_HOUSEKEEPING) and not any(instant in path for instant in tolerated):
            yield f"left behind: {path}"
