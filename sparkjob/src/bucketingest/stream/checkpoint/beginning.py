"""Keeps the offsets at which a Kafka pipeline started until its first commit is in the table.

With `startingOffsets: latest` every start without a position would start at other offsets, and rows that arrived in
between would be lost: after a job that was stopped before its first row, or whose first instant was rolled back.
Spark's checkpoint has the offsets, but it may be lost, so they are also kept next to the table.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bucketingest.spec.fields.source import KafkaSource
from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.attempts import in_directory
from bucketingest.stream.checkpoint.text import COMMITS, SOURCE, UnknownForm, parse_initial_offsets
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.source_range import canonical_json

BEGINNING: Final = "startingOffsets"
"""File in a checkpoint directory, next to Spark's: what the resource said when it was made."""
INITIAL: Final = f"{SOURCE}/0"
"""Spark's file with the offsets at which it started."""


def beginning_of(kafka: KafkaSource | None) -> str | None:
    """What the resource says about where to start; None for the earliest offsets, which a later start finds again."""
    if kafka is None or kafka.starting_offsets == "earliest":
        return None
    return canonical_json([kafka.starting_offsets, kafka.topics, kafka.topic_pattern])


class TableBeginning:
    """The start offsets that are kept next to the table.

    Args:
        storage: Of the table.
        pipeline: Its name.
        beginning: See `beginning_of`; with None nothing is kept.
    """

    def __init__(self, storage: Storage, pipeline: str, beginning: str | None) -> None:
        self._journal = Journal(storage, pipeline)
        self._digest = None if beginning is None else hashlib.sha256(beginning.encode()).hexdigest()[:16]
        self._kept = beginning is None

    def known(self) -> bytes | None:
        """Spark's file with the offsets of the first start; None when there was none."""
        return None if self._digest is None else self._journal.beginning(self._digest)

    def keep(self, checkpoint: Storage) -> None:
        """Keep the offsets that Spark has written to its checkpoint. Call it until they are there."""
        if self._kept or self._digest is None:
            return
        try:
            initial = checkpoint.get(INITIAL)
            parse_initial_offsets(initial.decode(errors="replace"))
        except (NotFound, UnknownForm):  # Spark has not written them, or is writing them
            return
        self._journal.keep_beginning(self._digest, initial)
        self._kept = True


def kept_beginning(
    root: Storage, former: list[str], beginning: str | None, start: Start, known: bytes | None = None
) -> dict[str, bytes]:
    """Files for a new directory that keep the start offsets of former starts, if the resource still says the same.

    The offsets next to the table (`known`) are this table's. Without them former checkpoints are read.
    If a former checkpoint has commits, but the table has no position and lost none, the table was recreated: the former
    offsets do not count then.
    """
    if beginning is None:
        return {}
    says = {BEGINNING: beginning.encode()}
    if known is not None:
        return says | {INITIAL: known}
    for directory in former:
        is_new = start.position is None and start.replay is None and start.verdict is not StartVerdict.REWOUND
        if is_new and root.list_level(in_directory(directory, COMMITS)).objects:
            return says
        try:
            initial = root.get(in_directory(directory, INITIAL))
            parse_initial_offsets(initial.decode(errors="replace"))
            if root.get(in_directory(directory, BEGINNING)) != says[BEGINNING]:
                return says
        except (NotFound, UnknownForm):
            continue
        return says | {INITIAL: initial}
    return says
