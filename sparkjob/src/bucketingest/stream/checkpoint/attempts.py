"""The directories below a pipeline's checkpoint root, one per start of a query, and the deletion of old ones."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bucketingest.storage import NotFound, Storage, StorageError
from bucketingest.stream.checkpoint.text import METADATA, UnknownForm, parse_query_id

log = logging.getLogger(__name__)

ROOT: Final = ""
"""The root itself as a checkpoint: of a user's own query, or of an earlier version."""
KEPT: Final = 3
"""Former directories that stay, to look into when something went wrong."""
SWEPT_AT_ONCE: Final = 10
_PREFIX: Final = "attempt-"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def free_directory(root: Storage, attempt: str) -> str:
    """A name below the root that nothing is in yet, also if an attempt of the same number was here before.

    That happens when the table was recreated: its attempts are then counted from 1 again.
    """
    assert attempt.startswith(_PREFIX), "the name by which later starts find it"
    name, again = attempt, 1
    while any(True for _ in root.list(name)):
        again += 1
        name = f"{attempt}-again-{again}"
    return name


def former_directories(root: Storage) -> list[str]:
    """Checkpoints of former starts, newest first, then the root if it is one."""
    level = root.list_level(ROOT)
    names = [name for name in level.directories if name.startswith(_PREFIX)]
    newest_first = sorted(names, key=lambda name: (_made(root, name), name), reverse=True)
    # An earlier version kept the only checkpoint in the root.
    return [*newest_first, *([ROOT] if {"sources", "offsets"} & set(level.directories) else [])]


def _made(root: Storage, directory: str) -> datetime:
    """When the directory became a checkpoint, by the store's clock: attempt numbers may start again, time does not."""
    try:
        return root.head(f"{directory}/{METADATA}").modified
    except NotFound:
        return _NEVER


def query_id_of(root: Storage, directory: str) -> str | None:
    """Id of the query in a directory; None if it has none, or none that can be read."""
    try:
        return parse_query_id(root.get(in_directory(directory, METADATA)).decode(errors="replace"))
    except (NotFound, UnknownForm):
        return None


def in_directory(directory: str, path: str) -> str:
    """Path below the root of a file in one of its checkpoints."""
    return f"{directory}/{path}" if directory else path


def sweep(root: Storage, former: list[str]) -> None:
    """Delete all but the newest former directories, some at each start; a failure does not stop the start.

    Files that a driver that should be dead still writes there do no harm. The next start deletes them.
    """
    old = [name for name in former if name != ROOT][KEPT:]
    for directory in old[-SWEPT_AT_ONCE:]:
        try:
            root.delete_many([info.path for info in root.list(directory)])
            _remove_empty(root, directory)
        except StorageError as error:
            log.warning("cannot delete an old checkpoint", extra={"directory": directory, "reason": str(error)})


def _remove_empty(root: Storage, directory: str) -> None:
    """On a file system empty directories stay, and would be listed at every start."""
    location = root.absolute(directory)
    if "://" in location:
        return
    with suppress(OSError):
        # Deepest first; one that has new files stays.
        for path in sorted(Path(location).rglob("*"), key=lambda each: len(each.parts), reverse=True):
            with suppress(OSError):
                path.rmdir()
        Path(location).rmdir()
