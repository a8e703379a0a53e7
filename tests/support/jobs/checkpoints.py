"""Starts of a pipeline, and what is in a checkpoint directory."""

from __future__ import annotations

from bucketingest.storage import Storage, open_storage
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.instants.source_range import SourceRange

ATTEMPT = "attempt-00000003-1"
NEW = Start(None, None, StartVerdict.NEW, "the table has nothing of this pipeline")


def in_step(position: SourceRange) -> Start:
    return Start(position, None, StartVerdict.IN_STEP, "nothing was left open")


def resumed(position: SourceRange | None, replay: SourceRange) -> Start:
    return Start(position, replay, StartVerdict.RESUMED, "instant 1 is resumed")


def tree(root: Storage, directory: str) -> dict[str, str]:
    return {info.path.removeprefix(f"{directory}/"): root.get(info.path).decode() for info in root.list(directory)}


def copy_of(root: Storage, directory: str) -> Storage:
    copied = open_storage(f"memory://{root.url.rpartition('/')[2]}-{directory}")
    for path, content in tree(root, directory).items():
        copied.put(path, content.encode())
    return copied
