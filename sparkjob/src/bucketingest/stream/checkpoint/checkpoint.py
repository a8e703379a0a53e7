"""Makes the Spark checkpoint of each start from the table's position, so that no checkpoint has to be kept.

Without one, Spark would read a Kafka source from `startingOffsets`, which cannot say where to continue: it must name
every partition that the topics have now. So each start gets its own directory, with the files that Spark would have
written itself: the last micro-batch that the table has, committed, and after it, not committed, the unfinished one,
which Spark then runs with exactly that range. Partitions that the position does not name are read from their beginning
(Spark 4.2, seen). Older directories do not matter, nor does a driver that still writes to one.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.attempts import (
    ROOT,
    former_directories,
    free_directory,
    in_directory,
    query_id_of,
    sweep,
)
from bucketingest.stream.checkpoint.beginning import kept_beginning
from bucketingest.stream.checkpoint.text import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCE,
    VERSION,
    UnknownForm,
    commit_text,
    metadata_text,
    offsets_text,
    parse_json,
    parse_offsets,
)
from bucketingest.stream.checkpoint.user_checkpoint import rewind
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import Relation, SourceRange, before, relate

SourceKind: TypeAlias = Literal["kafka", "files", "rate", "own"]
REBUILT: Final = "rebuilt"
"""The verdict when the table has a position and no former checkpoint has it."""


@dataclass(frozen=True, slots=True)
class PreparedCheckpoint:
    """Where the query finds its checkpoint, and how checkpoint and table fit together."""

    directory: str
    """Name below the root, such as `attempt-00000007-1`; "" is the root itself."""
    verdict: str
    """new, in step, resumed, rebuilt or rewound."""
    reason: str
    """The verdict in words, for the log."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Files for a new directory; none: Spark starts at the source's beginning."""

    files: dict[str, bytes]
    rebuilt: str | None = None
    """Why the verdict is `rebuilt`; None: a former checkpoint had the position too."""


def prepare_checkpoint(
    root: Storage,
    *,
    attempt: str,
    source: SourceKind,
    start: Start,
    beginning: str | None = None,
    known_beginning: bytes | None = None,
) -> PreparedCheckpoint:
    """Make the checkpoint with which a query continues from `start`.

    `attempt` names this start among all of the pipeline, such as `attempt-00000007-1`: epoch, and number of the start
    in this process. `beginning`, `known_beginning`: see `beginning_of` and `TableBeginning`.

    Raises RangeConflict if the table was fed from a source of another kind, or a user's own query and the table do not
    match; CheckpointLost if a file that a source needs for its position is missing.
    """
    check_kind(source, start)
    if source == "own":
        done, note = rewind(root, start)
        verdict = StartVerdict.REWOUND if done else start.verdict
        return PreparedCheckpoint(ROOT, verdict.value, "; ".join(filter(None, [start.reason, note])))
    former = former_directories(root)
    plan = _plan(root, former, source, chained(start))
    files = kept_beginning(root, former, beginning, start, known_beginning) | plan.files
    if files:
        files.setdefault(METADATA, metadata_text(str(uuid.uuid4())))
    directory = free_directory(root, attempt)
    # The file that makes the directory a checkpoint is written last: a partial one does not count.
    for path in sorted(files, key=lambda path: path == METADATA):
        root.put(in_directory(directory, path), files[path])
    sweep(root, former)
    return PreparedCheckpoint(directory, *_verdict(start, plan))


def check_kind(source: SourceKind, start: Start) -> None:
    """Raises RangeConflict if the table was fed from a source of another kind."""
    kind = source if source in {"kafka", "files"} else "checkpoint"
    for known in (start.position, start.replay):
        if known is not None and known.kind != kind:
            raise RangeConflict(
                f"the table was last fed from a {known.kind} source, this one is {kind}: a pipeline keeps its source; "
                "give the new one another name"
            )


def chained(start: Start) -> tuple[SourceRange | None, SourceRange | None]:
    """Position and replay; no replay if it does not start at the position.

    Spark then plans a new micro-batch, and the coordinator rolls the unfinished one back.
    """
    position, replay = start.position, start.replay
    if replay is None:
        return position, None
    if position is None:
        return before(replay), replay
    try:
        follows = relate(replay, position) is Relation.NEXT
    except RangeConflict:
        follows = False
    return position, replay if follows else None


def _plan(
    root: Storage, former: list[str], source: SourceKind, chained: tuple[SourceRange | None, SourceRange | None]
) -> _Plan:
    position, replay = chained
    if position is None and replay is None:
        return _new_rate(root) if source == "rate" else _Plan({})
    if source == "kafka":
        files = _query(str(uuid.uuid4()), position, replay)
        return _Plan(files, None if position is None else _missing(root, former, position))
    wanted = position or replay
    assert wanted is not None, "one of them is there"
    began, rebuilt = _began(root, former, position, replay)
    return _Plan(_query(wanted.query_id, position, replay) | began, rebuilt)


def _new_rate(root: Storage) -> _Plan:
    """Spark's own first micro-batch of generated rows has none, from second 0 to second 0: it counts as committed."""
    position = SourceRange("checkpoint", None, "0", str(uuid.uuid4()), 0)
    return _Plan(_query(position.query_id, position, None) | _began(root, (), position, None)[0])


def _query(query_id: str, position: SourceRange | None, replay: SourceRange | None) -> dict[str, bytes]:
    """The files that Spark itself keeps for every source: the last micro-batch, and the next one."""
    files = {METADATA: metadata_text(query_id)}
    number = -1
    if position is not None:
        number = max(position.batch_id, 0)
        end = position.end if replay is None else replay.start
        files[f"{OFFSETS}/{number}"] = offsets_text(end)
        files[f"{COMMITS}/{number}"] = commit_text()
        if number:  # Spark needs the one before, too; a range that was made from another's start does not know it
            files[f"{OFFSETS}/{number - 1}"] = offsets_text(position.start or end)
    if replay is not None:
        timestamp = int(time.time() * 1000) if replay.timestamp_ms is None else replay.timestamp_ms
        files[f"{OFFSETS}/{number + 1}"] = offsets_text(replay.end, timestamp)
    return files


def _missing(root: Storage, former: list[str], position: SourceRange) -> str | None:
    """Why the newest former checkpoint cannot be used; None if it has the position."""
    if not former:
        return "no former checkpoint is left"
    path = in_directory(former[0], f"{OFFSETS}/{max(position.batch_id, 0)}")
    try:
        offsets = parse_offsets(root.get(path).decode(errors="replace"))
    except (NotFound, UnknownForm):
        return f"{path} is gone or torn"
    return None if offsets.position == position.end else f"{path} is not the table's position"


def _verdict(start: Start, plan: _Plan) -> tuple[str, str]:
    verdict: str = start.verdict.value
    if plan.rebuilt is not None and start.verdict is not StartVerdict.REWOUND:
        verdict = REBUILT
    rebuilt = None if plan.rebuilt is None else f"the checkpoint was made from the table: {plan.rebuilt}"
    return verdict, "; ".join(filter(None, [start.reason, rebuilt]))


_START: Final = f"{SOURCE}/0"
"""Generated rows: the source's file with the time at which they started."""


def _began(
    root: Storage, former: Iterable[str], position: SourceRange | None, replay: SourceRange | None
) -> tuple[dict[str, bytes], str | None]:
    """When generated rows started, as a file: Spark counts their timestamps and their number from that time. And what
    was wrong with the newest former checkpoint; None: nothing.

    Without any former checkpoint rows continue with the next value, and with timestamps that fit it.
    """
    wanted = position or replay
    wrong: str | None = None
    for directory in former:
        start = _start(root, directory)
        if start is not None and query_id_of(root, directory) == (None if wanted is None else wanted.query_id):
            return {_START: _start_text(start)}, wrong
        wrong = wrong or f"{in_directory(directory, SOURCE)} does not say when rows started, or is of another query"
    seconds = max((json.loads(each.end) for each in (position, replay) if each is not None), default=0)
    start = int((time.time() - seconds) * 1000)
    return {_START: _start_text(start)}, wrong or "no former checkpoint is left"


def _start(root: Storage, directory: str) -> int | None:
    try:
        text = root.get(in_directory(directory, _START)).decode(errors="replace")
        version, _, start = text.partition("\n")
        value = parse_json(start)
    except (NotFound, UnknownForm):
        return None
    return value if version == VERSION and isinstance(value, int) else None


def _start_text(milliseconds: int) -> bytes:
    return f"{VERSION}\n{milliseconds}".encode()
