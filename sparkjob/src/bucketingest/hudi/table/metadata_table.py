"""Hudi's metadata table: readers that find it switched on take the list of files from it alone, so a table with it
hides the commits of writers that do not write it.

Facts of Hudi 1.2.0 (HoodieTableConfig, HoodieTableMetadataUtil.deleteMetadataTable): a property switches it on; without
the property its directory is ignored. Hudi does not empty a directory that it finds before it builds a new one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.naming import HOODIE_DIRECTORY, PROPERTIES_BACKUP, PROPERTIES_PATH
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.storage import ConditionalStorage, Storage
from bucketingest.storage.errors import Changed
from bucketingest.storage.interface import remove_directories

SWITCHES: Final = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
"""Properties that list its partitions; it is off if both are absent or empty."""
DROPPED_AT: Final = "bucketingest.metadata.table.dropped"
"""Our own property: when we dropped it last, as an instant time."""
_DIRECTORIES: Final = (f"{HOODIE_DIRECTORY}/metadata", f"{HOODIE_DIRECTORY}/.index_defs")
_CHECKSUM: Final = f"{HOODIE_DIRECTORY}/.hoodie.properties.crc"
"""Hadoop's local file system writes it beside the file, and does not read the file if they disagree."""


def switched_on(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that switch it on, with their values; empty if it is off."""
    found = {key: properties.get(key, "").strip() for key in SWITCHES}
    return {key: value for key, value in found.items() if value}


def switch_off(storage: Storage, now: datetime) -> None:
    """Switch it off in the table's properties. The caller holds the table's lock.

    Raises TimelineError if another writer changes the properties at the same time: then nothing was changed.
    """
    busy = f"{storage.url}: another writer changes {PROPERTIES_PATH}; start again when it has ended"
    if storage.exists(PROPERTIES_BACKUP):  # Hudi replaces the file in three steps, and readers take this one in between
        raise TimelineError(busy)
    if isinstance(storage, ConditionalStorage):
        data, version = storage.get_versioned(PROPERTIES_PATH)
        try:
            storage.replace(PROPERTIES_PATH, _without(data, now), version)
        except Changed as error:
            raise TimelineError(busy) from error
    else:
        storage.delete(_CHECKSUM)
        storage.put(PROPERTIES_PATH, _without(storage.get(PROPERTIES_PATH), now))


def _without(data: bytes, now: datetime) -> bytes:
    loaded = java_properties.parse(data.decode("iso-8859-1"))
    kept = {key: value for key, value in loaded.items() if key not in SWITCHES}
    text = java_properties.serialise(kept | {DROPPED_AT: format_time(now)}, ("Properties of a Hudi table",))
    return text.encode("ascii")


def delete_files(storage: Storage) -> int:
    """Delete its files and the definitions of its indexes, as far as they are there; returns how many. Only while it is
    switched off.
    """
    paths = [info.path for directory in _DIRECTORIES for info in storage.list(directory)]
    storage.delete_many(paths)
    for directory in _DIRECTORIES:
        remove_directories(storage, directory)
    return len(paths)
