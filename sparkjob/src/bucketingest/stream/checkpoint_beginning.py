"""Keeps the place where a Kafka pipeline began as long as nothing of it is in the table.

With `startingOffsets: latest` every start without a position would begin at another place, and rows that came in
between would be left out: a job that is stopped before its first row, or whose first instant is taken back.
"""

from __future__ import annotations

from typing import Final

from bucketingest.spec.source import KafkaSource
from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint_attempts import in_directory
from bucketingest.stream.checkpoint_text import COMMITS, SOURCE, UnknownForm, parse_initial_offsets
from bucketingest.write.outcome import Start, StartVerdict
from bucketingest.write.source_range import canonical_json

BEGINNING: Final = "startingOffsets"
"""File in a checkpoint directory, beside Spark's: what the resource said when it was made."""
INITIAL: Final = f"{SOURCE}/0"
"""Spark's file with the offsets at which it began."""


def beginning_of(kafka: KafkaSource | None) -> str | None:
    """What the resource says of where to begin; None where a later look finds nothing less: at the earliest offsets."""
    if kafka is None or kafka.starting_offsets == "earliest":
        return None
    return canonical_json([kafka.starting_offsets, kafka.topics, kafka.topic_pattern])


def kept_beginning(root: Storage, former: list[str], beginning: str | None, start: Start) -> dict[str, bytes]:
    """Files for a fresh directory that hold on to where former starts began, if the resource still says the same.

    A former checkpoint that has committed something, beside a table that has nothing and lost nothing, is that of a
    table that was made anew: this one begins for itself.
    """
    if beginning is None:
        return {}
    says = {BEGINNING: beginning.encode()}
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
