"""What a new checkpoint needs for a source that Spark cannot position by offsets alone: the time at which generated
rows started.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.attempts import in_directory, query_id_of
from bucketingest.stream.checkpoint.text import SOURCE, VERSION, UnknownForm, parse_json
from bucketingest.write.instants.source_range import SourceRange

_START: Final = "0"
"""Generated rows: the file in the source's folder with the time at which they started."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """Files for the source's folder."""

    files: dict[str, bytes]
    has_replay: bool
    """Whether the unfinished micro-batch can run again as it was."""
    rebuilt: str | None = None
    """What was wrong with the newest former checkpoint; None: nothing."""
    note: str | None = None


def found_rate(
    root: Storage, former: Iterable[str], position: SourceRange | None, replay: SourceRange | None
) -> SourceState:
    """When generated rows started: Spark counts their timestamps and their number from that time.

    Without any former checkpoint rows continue with the next value, and with timestamps that fit it.
    """
    wanted = position or replay
    wrong: str | None = None
    for directory in former:
        start = _start(root, directory)
        if start is not None and query_id_of(root, directory) == (None if wanted is None else wanted.query_id):
            return SourceState({_START: _start_text(start)}, has_replay=replay is not None, rebuilt=wrong)
        wrong = wrong or f"{in_directory(directory, SOURCE)} does not say when rows started, or is of another query"
    seconds = max((json.loads(each.end) for each in (position, replay) if each is not None), default=0)
    start = int((time.time() - seconds) * 1000)
    wrong = wrong or "no former checkpoint is left"
    return SourceState({_START: _start_text(start)}, has_replay=replay is not None, rebuilt=wrong)


def _start(root: Storage, directory: str) -> int | None:
    try:
        text = root.get(in_directory(directory, f"{SOURCE}/{_START}")).decode(errors="replace")
        version, _, start = text.partition("\n")
        value = parse_json(start)
    except (NotFound, UnknownForm):
        return None
    return value if version == VERSION and isinstance(value, int) else None


def _start_text(milliseconds: int) -> bytes:
    return f"{VERSION}\n{milliseconds}".encode()
