"""The way of a dead-letter file: staged under a hidden directory, then published, or discarded.

Which rejected rows share a file depends on the number of tasks, and so on the attempt. Each attempt stages its own
files. Once the instant has completed, the files that its ledger names are published, and a reader sees each rejected
row once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from bucketingest.storage import Storage, get_if_there
from bucketingest.write.pipeline_names import directory_name

STAGING_DIRECTORY: Final = ".staging"


def staged_path(pipeline: str, instant_time: str, name: str = "") -> str:
    """Where a dead-letter file waits until its instant has completed, relative to the dead-letter table."""
    return f"{STAGING_DIRECTORY}/{directory_name(pipeline)}/{instant_time}/{name}".rstrip("/")


def publish(storage: Storage, pipeline: str, instant_time: str, names: Iterable[str]) -> None:
    """Make the staged files of a completed instant visible. It may be repeated, also after a crash in the middle."""
    for name in names:
        staged = staged_path(pipeline, instant_time, name)
        content = get_if_there(storage, staged)
        if content is None:
            continue  # published before
        storage.put(name, content)
        storage.delete(staged)


def withdraw(storage: Storage, instants: Collection[str]) -> list[str]:
    """Delete the published files of these instants; returns their names. Every file's name starts with its instant."""
    paths = [info.path for info in storage.list_level("").objects if info.path.partition("_")[0] in instants]
    storage.delete_many(paths)
    return paths


def staged_instants(storage: Storage, pipeline: str) -> list[str]:
    """Request times of the instants that have staged files."""
    level = storage.list_level(f"{STAGING_DIRECTORY}/{directory_name(pipeline)}")
    return sorted(path.rpartition("/")[2] for path in level.directories)


def discard(storage: Storage, pipeline: str, instant_time: str) -> None:
    """Delete the staged files of an instant."""
    storage.delete_many([info.path for info in storage.list(staged_path(pipeline, instant_time))])
