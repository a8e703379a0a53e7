"""What a new checkpoint needs for a source that Spark cannot position by offsets alone: the list of files read so far,
the time at which generated rows started.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.attempts import in_directory, query_id_of
from bucketingest.stream.checkpoint.source_files import digest_of, log_files, read_log
from bucketingest.stream.checkpoint.text import SOURCE, VERSION, UnknownForm, parse_files_position, parse_json
from bucketingest.stream.errors import CheckpointLost
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


def found_files(
    root: Storage, former: list[str], position: SourceRange | None, replay: SourceRange | None
) -> SourceState:
    """The file source's log up to the position, or the replay, from the newest former checkpoint that has it.

    Later entries are left out: Spark finds their files again. None of those is too old for it then, since its limit is
    an age relative to the newest file of the log, files come oldest first, and this log is a prefix of that one.

    Raises CheckpointLost if none has the log up to the position: then nothing says which files are in the table.
    """
    wrong: list[str] = []
    for wanted in filter(None, (replay, position)):
        for directory in former:
            log = _log_up_to(root, directory, wanted)
            if isinstance(log, str):
                wrong.append(log)
                continue
            without_replay = replay is not None and wanted is not replay
            return SourceState(
                log,
                has_replay=wanted is replay,
                rebuilt=wrong[0] if wrong and directory != former[0] else None,
                note="the unfinished micro-batch is planned again: its files are not known" if without_replay else None,
            )
    if position is not None:
        raise CheckpointLost(
            f"{root.url}: the table has the files up to {position.end} of the file source's log, and "
            f"{'; '.join(dict.fromkeys(wrong)) or 'no checkpoint is left there'}. Without it nothing says which files "
            "are in the table. Restore the checkpoint directories, or give the pipeline another name: then all files "
            "are ingested again, and their rows replace those of equal keys in the table"
        )
    return SourceState({}, has_replay=False, note="the first micro-batch is planned again: its files are not known")


def _log_up_to(root: Storage, directory: str, wanted: SourceRange) -> dict[str, bytes] | str:
    """The files of a log that ends at the range's end, or why the directory has none."""
    where = f"{root.url}/{in_directory(directory, SOURCE)}"
    try:
        last, digest = parse_files_position(wanted.end)
    except UnknownForm:  # of a version that did not fingerprint the log
        last, digest = _log_offset(wanted.end), ""
        if query_id_of(root, directory) != wanted.query_id:
            return f"{where} is of another query"
    entries = read_log(root, directory, last)
    if entries is None:
        return f"{where} is not whole up to entry {last}"
    if digest and digest_of(entries, last) != digest:
        return f"{where} lists other files"
    return log_files(entries, last)


def _log_offset(position: str) -> int:
    value = json.loads(position)
    if isinstance(value, dict) and isinstance(value.get("logOffset"), int):
        return int(value["logOffset"])
    raise CheckpointLost(
        f"the table's position {position} is not that of a directory of files: a pipeline keeps its source; give the "
        "new one another name"
    )


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
