"""Which history files make up the archived history: manifests count up, and `_version_` has the number that counts.

Facts of Hudi 1.2.0 (LSMTimeline): readers that find no version file take the highest manifest. Files whose names only
start like a manifest's have stopped every reader of some releases, so nothing else may be created beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage, object_names

VERSION_PATH: Final = f"{HISTORY_DIRECTORY}/_version_"
_NAME: Final = re.compile(r"manifest_(\d+)")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One history file of a manifest; `size` in bytes, 0 if the manifest does not say."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the next manifest continues."""

    number: int
    """Of the manifest that has the entries; 0 if there is none."""
    entries: tuple[ManifestEntry, ...]
    published: int
    """The number in `_version_`; 0 without it."""
    highest: int
    """Of all manifests, also broken ones: the next one's number is above it."""


def manifest_path(number: int) -> str:
    """Path of a manifest, relative to the table's root."""
    return f"{HISTORY_DIRECTORY}/manifest_{number}"


def manifest_numbers(names: Iterable[str]) -> list[int]:
    """Numbers of the manifests among the names of a history directory."""
    return [int(match[1]) for match in map(_NAME.fullmatch, names) if match]


def history_names(storage: Storage) -> frozenset[str]:
    """Names of all files of the history directory."""
    return frozenset(object_names(storage, HISTORY_DIRECTORY))


def published_number(storage: Storage) -> int:
    """The number in `_version_`; 0 without it. Raises InvalidTable if it is no number."""
    try:
        return int(storage.get(VERSION_PATH))
    except NotFound:
        return 0
    except ValueError as error:
        raise InvalidTable(f"{storage.url}/{VERSION_PATH} is not a number: restore it") from error


def read_manifest(storage: Storage, number: int) -> tuple[ManifestEntry, ...]:
    """The files of one manifest. Raises InvalidTable if it is missing or broken."""
    path = manifest_path(number)
    try:
        files = json.loads(storage.get(path))["files"]
        return tuple(ManifestEntry(entry["fileName"], int(entry.get("fileLen", 0))) for entry in files)
    except (NotFound, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTable(f"{storage.url}/{path} cannot be read ({error}): the archived history is damaged") from error


def load_manifest(storage: Storage) -> Manifest:
    """The highest manifest: an archival that was interrupted before it published it wrote all of its files before.

    One that was not published and names an absent file does not count, the published one does. Raises InvalidTable if
    that one is damaged.
    """
    names = history_names(storage)
    published = published_number(storage)
    highest = max([*manifest_numbers(names), published])
    if highest > published:
        try:
            entries = read_manifest(storage, highest)
        except InvalidTable:
            if not published:
                raise
        else:
            if not published or all(entry.name in names for entry in entries):
                return Manifest(highest, entries, published, highest)
    return Manifest(published, read_manifest(storage, published) if published else (), published, highest)
