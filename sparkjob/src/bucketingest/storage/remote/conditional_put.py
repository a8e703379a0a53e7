"""PUTs with a condition, and how a lost answer differs from a lost race: a random token in the object's metadata.

A PUT may succeed while its answer is lost; the next try then finds its own object. Each write therefore carries a
token, and an object that holds our token is our success. Comparing contents instead would let two racers with equal
contents both win. A store may also refuse a large create and close the connection while we still send: the token shows
that, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import obstore

from bucketingest.storage import limits
from bucketingest.storage.errors import AlreadyExists, Changed, NotFound, StorageError, StorageUnavailable
from bucketingest.storage.forward import forward_seconds
from bucketingest.storage.interface import Version
from bucketingest.storage.remote.failures import OBSTORE_ERRORS, Secrets, translated

if TYPE_CHECKING:
    from obstore import PutResult, UpdateVersion
    from obstore.store import ObjectStore

CREATOR = "bucketingestcreator"
"""User metadata naming the write that made an object. Letters only: Azure takes no dash in a metadata name."""

Payload: TypeAlias = memoryview | bytes


@dataclass(frozen=True, slots=True)
class ConditionalPut:
    """One object that is written under a condition, with several tries if needed."""

    upload: ObjectStore
    """Client for the PUT."""
    quick: ObjectStore
    """Client for looking at the object afterwards."""
    key: str
    where: str
    """The object as messages name it."""
    secrets: Secrets
    token: str
    """Random, new for each call: it distinguishes our object from another writer's."""

    def create(self, payload: Payload) -> None:
        """Write the object if there is none. Raises AlreadyExists."""
        self._repeated(lambda: self._try_create(payload))

    def replace(self, payload: Payload, version: Version) -> Version:
        """Write the object if it is still the given version; the version it is then. Raises Changed, NotFound."""
        written: list[Version] = []
        self._repeated(lambda: self._try_replace(payload, version, written))
        return written[0]

    def _repeated(self, attempt: Callable[[], StorageUnavailable | None]) -> None:
        deadline = forward_seconds() + limits.RETRY_TIME_MAX.total_seconds()
        pause = limits.CREATE_RETRY_PAUSE_S
        for tries_left in reversed(range(limits.CREATE_TRIES_MAX)):
            failure = attempt()
            if failure is None:
                return
            if tries_left == 0 or forward_seconds() > deadline:
                raise failure
            time.sleep(pause)
            pause *= 2

    def _try_create(self, payload: Payload) -> StorageUnavailable | None:
        """One PUT: None when our write succeeded, an error when trying again may help; else it raises."""
        result = self._put("create", payload, "create")
        if not isinstance(result, StorageError):
            return None
        if not isinstance(result, (AlreadyExists, StorageUnavailable)):
            raise result
        found = self._found()
        if found is not None:
            if found[0] == self.token:
                return None
            raise AlreadyExists(f"{self.where}: create failed: the name is taken; another writer created it first")
        if isinstance(result, StorageUnavailable):
            return result
        # S3 answers 409 while another create is under way, and that one may yet fail: refused, but nothing is there.
        return StorageUnavailable(
            f"{self.where}: create failed: another create of this name was under way and left nothing; try again"
        )

    def _try_replace(self, payload: Payload, version: Version, written: list[Version]) -> StorageUnavailable | None:
        """One PUT: None when our write succeeded, an error when trying again may help; else it raises."""
        result = self._put("replace", payload, _condition(version))
        if not isinstance(result, StorageError):
            written.append(Version(result["e_tag"], result["version"]))
            return None
        if not isinstance(result, (Changed, StorageUnavailable)):
            raise result
        found = self._found()
        if found is not None and found[0] == self.token:
            written.append(found[1])
            return None
        if isinstance(result, Changed):
            raise result
        return result

    def _put(self, what: str, payload: Payload, mode: str | UpdateVersion) -> PutResult | StorageError:
        attributes = {CREATOR: self.token}
        try:
            return obstore.put(
                self.upload,
                self.key,
                payload,
                mode=mode,  # type: ignore[arg-type]
                attributes=attributes,
                use_multipart=False,
            )
        except OBSTORE_ERRORS as error:
            return translated(self.where, what, error, self.secrets)

    def _found(self) -> tuple[str, Version] | None:
        """The token of the write that made the object ("" if it has none) and its version; None if there is none."""
        try:
            result = obstore.get(self.quick, self.key, options={"head": True})
        except OBSTORE_ERRORS as error:
            failure = translated(self.where, "head", error, self.secrets)
            if isinstance(failure, NotFound):
                return None
            raise failure from None
        return result.attributes.get(CREATOR, ""), Version(result.meta["e_tag"], result.meta["version"])


def _condition(version: Version) -> UpdateVersion:
    condition: UpdateVersion = {}
    if version.etag is not None:
        condition["e_tag"] = version.etag
    if version.generation is not None:
        condition["version"] = version.generation
    return condition
