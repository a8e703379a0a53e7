"""Reads what tenants may write, each object in a guard of its own: one that cannot be read counts as absent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from bucketingest.spec.model import KIND
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.manifests.attempt_objects import UID_LABEL
from bucketingest_operator.observe.job_reading import AnyJob, ConfigSeen, read_any_job, read_config
from bucketingest_operator.observe.ownership import controller_of
from bucketingest_operator.observe.pod_reading import PodSeen, read_pod

log = logging.getLogger(__name__)

Object = dict[str, Any]
T = TypeVar("T")

_NAMED_MAX: Final = 1000
"""Unreadable objects that are remembered, so that each is logged once."""
_WORDS_MAX: Final = 200


class Unreadable:
    """Counts and names the objects that could not be read."""

    def __init__(self) -> None:
        self.count = 0
        """How often one could not be read, since the start."""
        self._named: dict[str, None] = {}

    def note(self, found: object, error: Exception) -> None:
        """An object could not be read."""
        self.count += 1
        metadata = found.get("metadata") if isinstance(found, dict) else None
        metadata = metadata if isinstance(metadata, dict) else {}
        uid = str(metadata.get("uid"))
        if uid in self._named:
            return
        if len(self._named) >= _NAMED_MAX:
            del self._named[next(iter(self._named))]
        self._named[uid] = None
        who = {"namespace": str(metadata.get("namespace")), "object": str(metadata.get("name"))}
        said = plain(f"{type(error).__name__}: {error}"[:_WORDS_MAX])
        log.warning("an object cannot be read and is left out", extra={**who, "error": said})


class Readers:
    """Reads pods, Jobs and ConfigMaps with the operator's labels; `unreadable` notes those that cannot be read."""

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable

    def pod(self, found: Object) -> PodSeen | None:
        """A pod; None if it is not the operator's or an executor, or cannot be read."""
        return self._read(read_pod, found)

    def job(self, found: Object) -> AnyJob | None:
        """A Job; None if it is not the operator's, or cannot be read."""
        return self._read(read_any_job, found)

    def config(self, found: Object) -> ConfigSeen | None:
        """An attempt's ConfigMap; None if it is not the operator's, or cannot be read."""
        return self._read(read_config, found)

    def _read(self, read: Callable[[Object], T], found: Object) -> T | None:
        try:
            return read(found) if _is_owned(found["metadata"]) else None
        except Exception as error:  # noqa: BLE001 - whatever one object does to its reader, the others are read
            self._unreadable.note(found, error)
            return None


def _is_owned(metadata: Object) -> bool:
    """Whether an object has a controller that one of the operator's can have. What only has labels is not parsed."""
    controller = controller_of(metadata)
    if controller is None:
        return False
    if controller.kind == KIND:
        return controller.uid == (metadata.get("labels") or {}).get(UID_LABEL)
    return controller.kind in {"Job", "Pod"}  # of a rollback or a check, of an executor
