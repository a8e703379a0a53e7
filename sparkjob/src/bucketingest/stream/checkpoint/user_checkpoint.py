"""The checkpoint of a user's own streaming DataFrame: used where it is, since only Spark knows what is in it, and at
most rolled back to the table's last micro-batch.
"""

from __future__ import annotations

from bucketingest.storage import NotFound, Storage, object_names
from bucketingest.stream.checkpoint.attempts import ROOT, query_id_of
from bucketingest.stream.checkpoint.text import (
    COMMITS,
    OFFSETS,
    VERSION,
    BatchOffsets,
    UnknownForm,
    parse_offsets,
)
from bucketingest.stream.errors import CheckpointLost
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import SourceRange

_ADVICE = "Restore the checkpoint, or give the pipeline another name and checkpoint to ingest everything again"


def rewind(root: Storage, start: Start) -> tuple[bool, str | None]:
    """Let the checkpoint continue at the table's position: whether something was rolled back, and what, in words.

    If Spark is ahead of the table, the micro-batch after the position runs again as it was, and later ones are planned
    again (Spark 4.2, seen). The sources' own files stay: a file source reads what it has listed since then in one
    micro-batch.

    Raises CheckpointLost if the checkpoint is behind the table, of another query, or lacks a file that is needed;
    RangeConflict if the table has nothing of this pipeline, and the checkpoint has micro-batches that it committed.
    """
    number = -1
    if start.position is None:
        if start.verdict is not StartVerdict.REWOUND and _numbers(root, COMMITS):
            raise RangeConflict(
                f"{root.url}: the checkpoint has committed micro-batches, but the table has none of this pipeline: the "
                "table was recreated, or the pipeline got another name. Delete the checkpoint directory to ingest from "
                "the source's beginning"
            )
    else:
        number = start.position.batch_id
        _check(root, start.position)
    return _roll_back(root, number)


def _check(root: Storage, position: SourceRange) -> None:
    """Refuse a checkpoint that is not the one with which the table was written, or cannot continue from there."""
    query_id = query_id_of(root, ROOT)
    if query_id != position.query_id:
        found = "has no metadata that can be read" if query_id is None else f"is that of query {query_id}"
        raise CheckpointLost(
            f"{root.url}: the table was written with the checkpoint of query {position.query_id}, and this one {found}"
            f". {_ADVICE}"
        )
    number = position.batch_id
    offsets = _offsets(root, number)
    if offsets is None:
        numbers = _numbers(root, OFFSETS)
        what = f"starts at micro-batch {min(numbers)}" if numbers else "has no micro-batch"
        if numbers and min(numbers) < number:
            what = f"lacks {OFFSETS}/{number}, or it is torn"
        raise CheckpointLost(
            f"{root.url}: the table has the rows up to micro-batch {number}, and the checkpoint {what}. {_ADVICE}"
        )
    if offsets.position != position.end:
        raise CheckpointLost(
            f"{root.url}: the table has micro-batch {number} up to {position.end}, and the checkpoint has it up to "
            f"{offsets.position}. {_ADVICE}"
        )
    if not _has_next(root, number) and number and _offsets(root, number - 1) is None:
        raise CheckpointLost(
            f"{root.url}: Spark needs {OFFSETS}/{number - 1} to continue after micro-batch {number}, and it is gone or "
            f"torn. {_ADVICE}"
        )


def _has_next(root: Storage, number: int) -> bool:
    return _offsets(root, number + 1) is not None


def _roll_back(root: Storage, number: int) -> tuple[bool, str | None]:
    """Delete everything after a micro-batch, except the plan of the next one."""
    commits = [each for each in _numbers(root, COMMITS) if each > number]
    planned = number + 1 if _has_next(root, number) else number
    offsets = [each for each in _numbers(root, OFFSETS) if each > planned]
    if number < 0 and commits and planned < 0:
        raise CheckpointLost(
            f"{root.url}: the table has nothing of this pipeline any more, and the checkpoint does not reach back to "
            f"its first micro-batch. {_ADVICE}"
        )
    # Commits first: without them Spark runs again what the offsets say; the reverse would fail.
    _delete(root, COMMITS, commits)
    _delete(root, OFFSETS, offsets)
    torn = [each for each in _numbers(root, COMMITS)[-1:] if not _whole(root, each)]
    _delete(root, COMMITS, torn)  # Spark runs the micro-batch again, and the table has it already
    if not commits:
        return False, None
    back = f"the checkpoint was rolled back from micro-batch {max(commits)} to {number if number >= 0 else 'its start'}"
    return True, back


def _offsets(root: Storage, number: int) -> BatchOffsets | None:
    """None: absent or torn."""
    try:
        return parse_offsets(root.get(f"{OFFSETS}/{number}").decode(errors="replace"))
    except (NotFound, UnknownForm):
        return None


def _whole(root: Storage, commit: int) -> bool:
    version, _, metadata = root.get(f"{COMMITS}/{commit}").decode(errors="replace").partition("\n")
    return version == VERSION and metadata.rstrip().endswith("}")


def _numbers(root: Storage, folder: str) -> list[int]:
    return sorted(int(name) for name in object_names(root, folder) if name.isdigit())


def _delete(root: Storage, folder: str, numbers: list[int]) -> None:
    """Newest first, so that a crash leaves the oldest ones; with the checksums that Hadoop keeps on local disks."""
    for number in sorted(numbers, reverse=True):
        for name in (f"{folder}/{number}", f"{folder}/.{number}.crc"):
            root.delete(name)
