"""What the two indexes do differently in an instant's life, behind one interface."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.state.summary import StateSummary
from bucketingest.write.instants.records import Intent, LedgerEntry

Group = tuple[str, str]
"""Partition path and file id."""


class TableGroups(Protocol):
    """The table's file groups as this attempt knows them."""

    @property
    def file_ids(self) -> FileIds | PlannedFileIds:
        """What write tasks need."""
        ...

    @property
    def fingerprint(self) -> str:
        """What an intent must share with an earlier one for both to put the same rows under the same names."""
        ...

    @property
    def rules(self) -> str:
        """What a ledger entry keeps of the rules by which its rows were placed."""
        ...

    @property
    def state(self) -> StateSummary | None:
        """The size of what keys are looked up in; None where nothing is looked up."""
        ...

    def close_names(self, timeline: Timeline) -> None:
        """Before rows of overtaken instants come again: files of theirs that another writer deleted must not come back
        with keys that have another file group by then.
        """
        ...

    def prepare(self) -> None:
        """What may take long, before an instant begins: no lock is held."""
        ...

    def fold_in(self, timeline: Timeline, written: Sequence[Group], replaced: Collection[Group]) -> None:
        """Take over what completed instants made. `written`: by those that were not folded in before; `replaced`: all
        file groups that readers no longer read.
        """
        ...

    def plan(self, instant: str, sequence: int) -> str | None:
        """Record where a micro-batch's rows will go, before its intent; what the intent names the record by."""
        ...

    def goes_on(self, instant: str, sequence: int) -> bool:
        """Whether a new micro-batch of an open instant can be placed as those before it were."""
        ...

    def resume(self, instant: str, started: Intent) -> bool:
        """Whether a micro-batch that was started can be repeated with the same places."""
        ...

    def refusal(self, timeline: Timeline, instant: str, entries: Sequence[LedgerEntry]) -> str | None:
        """Why the instant must not be committed: its rows are no longer where its keys belong."""
        ...

    def load(self, partition_paths: Collection[str], *, everything: bool) -> None:
        """Tasks met rows of partitions whose keys are not loaded: the next `prepare` loads these, or all."""
        ...

    def wrote(self, written: Collection[Group]) -> None:
        """An instant of this attempt is complete."""
        ...
