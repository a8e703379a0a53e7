"""Keeps the place where a Kafka pipeline began as long as nothing of it is in the table.

With `startingOffsets: latest` every start without a position would begin at another place, and rows that came in
between would be left out: a job that is stopped before its first row, or whose first instant is taken back. Spark's
checkpoint knows the place, but no checkpoint need be kept, so it is also kept beside the table.
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
"""File in a checkpoint directory, beside Spark's: what the resource said when it was made."""
INITIAL: Final = f"{SOURCE}/0"
"""Spark's file with the offsets at which it began."""


def beginning_of(kafka: KafkaSource | None) -> str | None:
    """What the resource says of where to begin; None where a later look finds nothing less: at the earliest offsets."""
    if kafka is None or kafka.starting_offsets == "earliest":
        return None
    return canonical_json([kafka.starting_offsets, kafka.topics, kafka.topic_pattern])


class TableBeginning:
    """What is kept beside the table.

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
        """Spark's file with the offsets at which the first start began; None when there was none."""
        return None if self._digest is None else self._journal.beginning(self._digest)

    def keep(self, checkpoint: Storage) -> None:
        """Keep what a query has found by now in the directory of its checkpoint. To be called until it has."""
        if self._kept or self._digest is None:
            return
        try:
            initial = checkpoint.get(INITIAL)
            parse_initial_offsets(initial.decode(errors="replace"))
        except (NotFound, UnknownForm):  # the query has not looked yet, or is at it
            return
        self._journal.keep_beginning(self._digest, initial)
        self._kept = True


def kept_beginning(
    root: Storage, former: list[str], beginning: str | None, start: Start, known: bytes | None = None
) -> dict[str, bytes]:
    """Files for a fresh directory that hold on to where former starts began, if the resource still says the same.

    What is kept beside the table (`known`) is that of this table. Without it former checkpoints are asked.
    A former checkpoint that has committed something, beside a table that has nothing and lost nothing, is that of a
    table that was made anew: this one begins for itself.
    """
    if beginning is None:
        return {}
    says = {BEGINNING: beginning.encode()}
    if known is not None:
        return says | {INITIAL: known}
    for directory in former:
        anew = start.position is None and start.replay is None and start.verdict is not StartVerdict.REWOUND
        if anew and root.list_level(in_directory(directory, COMMITS)).objects:
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
