"""`bucketingest compact-round`: what the pods of a compaction's Job run. It needs neither Spark nor Java."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bucketingest.cli.process.signals import StopSignals
from bucketingest.cli.services.held_table import TableChoice
from bucketingest.services.pods.shared_round import share_round

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RoundChoice:
    """A round, and this process's place among those that share it."""

    url: str
    number: int
    round_number: int
    index: int = 0
    of: int = 1
    storage_options: tuple[str, ...] = ()


def compact_round(choice: RoundChoice) -> None:
    """Share the round's work until nothing is left, or the round ends. A stop signal gives the claimed part back.

    Raises StoppedEarly after a signal, RoundEnded if this release must not work on the open round, UnsupportedTable,
    and what reading and writing a table raises.
    """
    with StopSignals(lambda _: None).installed():
        storage = TableChoice(choice.url, storage_options=choice.storage_options).open()
        failures = share_round(storage, choice.number, choice.round_number, index=choice.index, of=choice.of)
    result = "the round has ended" if failures is None else "nothing is left to do"
    extra = {"number": choice.number, "round": choice.round_number, "failed": failures or 0}
    log.info(result, extra=extra)
