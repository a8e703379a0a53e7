"""A pipeline's position outside the timeline, so that the instants of one that has ended can be archived.

It is in `.hoodie/.bucketingest/<pipeline>/position/<t>`: the source range at whose end the pipeline was when t was its
newest instant. An instant's other objects go after a while, and its completed file with the archival.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from bucketingest.storage import AlreadyExists, NotFound, Storage
from bucketingest.write.instants.journal import ROOT
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.pipeline_names import directory_name

KEPT: Final = 2
"""Newest ones that stay."""


def keep_position(storage: Storage, pipeline: str, instant: str, position: SourceRange) -> None:
    """Record the position as of its newest instant. It may be repeated."""
    path = f"{_root(pipeline)}/{instant}"
    with suppress(AlreadyExists):  # of the same instant: the same position
        storage.create(path, json.dumps(position.to_json()).encode())
    storage.delete_many([f"{_root(pipeline)}/{old}" for old in _instants(storage, pipeline)[:-KEPT]])


def kept_position(storage: Storage, pipeline: str) -> tuple[str, SourceRange] | None:
    """The newest recorded position, and its instant; None if there is none."""
    for instant in reversed(_instants(storage, pipeline)):
        with suppress(NotFound):
            return instant, SourceRange.from_json(json.loads(storage.get(f"{_root(pipeline)}/{instant}")))
    return None


def _instants(storage: Storage, pipeline: str) -> list[str]:
    return sorted(info.path.rpartition("/")[2] for info in storage.list_level(_root(pipeline)).objects)


def _root(pipeline: str) -> str:
    return f"{ROOT}/{directory_name(pipeline)}/position"
