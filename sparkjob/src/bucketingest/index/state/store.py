"""The durable state: objects below `.hoodie/.bucketingest/state/`, each created if absent and never overwritten."""

from __future__ import annotations

import hashlib
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self, cast, get_args

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.hudi.table.table import HoodieTable
from bucketingest.index.errors import StateDamaged, StateError
from bucketingest.index.state.envelope import sealed, unsealed
from bucketingest.index.state.hashing import SEED_BYTES, KeyHasher
from bucketingest.index.state.manifest import Manifest
from bucketingest.index.state.runs.run_file import DIGEST_BYTES, TABLE_ID_BYTES
from bucketingest.index.whole_table.identity import KeyIdentity
from bucketingest.storage.agreement import create_or_get, created, get_if_there
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

STATE_DIRECTORY: Final = f"{OWN_DIRECTORY}/state"
_FORMAT: Final = f"{STATE_DIRECTORY}/format"
MANIFESTS_KEPT: Final = 2
UNNAMED_KEPT: Final = timedelta(hours=1)
"""A run that no manifest names yet may be of an instant that is still open."""
_IDENTITIES: Final = get_args(KeyIdentity)
_DOWNLOAD_BYTES: Final = 64 * 1024**2
_NO_TABLE: Final = bytes(TABLE_ID_BYTES)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateStore:
    """The state of one table. Build it with `open`."""

    storage: Storage
    hasher: KeyHasher
    table_id: bytes
    identity: KeyIdentity = "partition+key"

    @classmethod
    def open(cls, storage: Storage, identity: KeyIdentity = "partition+key", *, new_seed: bytes | None = None) -> Self:
        """The table's state, made if there is none. Raises StateError if its format object cannot be used: also if keys
        are identified otherwise, as then it must be loaded anew.

        `new_seed`: used if there is none yet; default: random.
        """
        data = get_if_there(storage, _FORMAT)
        if data is None:
            seed = (new_seed or os.urandom(SEED_BYTES)).hex()  # noqa: TID251 - the simulation gives this module another
            wanted = sealed("format", {"seed": seed, "identity": identity}, _NO_TABLE)
            data = create_or_get(storage, _FORMAT, wanted)
        found = cls._of(storage, data)
        if found.identity != identity:
            what = f"keys are identified by {found.identity}, and table.index.global needs {identity}"
            raise StateDamaged(f"{storage.url}/{_FORMAT}: {what}")
        return found

    @classmethod
    def find(cls, storage: Storage) -> Self | None:
        """The table's state; None if there is none. Nothing is written. Raises StateError as `open` does."""
        data = get_if_there(storage, _FORMAT)
        return None if data is None else cls._of(storage, data)

    @classmethod
    def _of(cls, storage: Storage, data: bytes) -> Self:
        source = f"{storage.url}/{_FORMAT}"
        content = unsealed("format", data, _NO_TABLE, source=source)
        identity = content.get("identity")
        if identity not in _IDENTITIES:
            raise StateDamaged(f"{source}: keys are identified by {identity!r}, not by {' or '.join(_IDENTITIES)}")
        try:
            hasher = KeyHasher(bytes.fromhex(content["seed"]))
        except (KeyError, ValueError) as error:
            raise StateDamaged(f"{source}: it has no usable seed: {error}") from error
        table_id = hashlib.sha256(hasher.seed + identity.encode()).digest()[:TABLE_ID_BYTES]
        return cls(storage, hasher, table_id, cast(KeyIdentity, identity))

    def put_run(self, digest: str, file: pathlib.Path) -> None:
        """Store a run. One of this name that is there already has the same content; a damaged one is replaced."""
        if not created(self.storage, _run_path(digest), file) and not self._is_whole(digest):
            log.warning("damaged run replaced", extra={"path": _run_path(digest)})
            self.storage.put(_run_path(digest), file)

    def get_run(self, digest: str, target: pathlib.Path) -> None:
        """Copy a run into a local file, which `Run.open` then checks. Raises NotFound."""
        with target.open("wb") as file:
            for part in self._parts(_run_path(digest)):
                file.write(part)

    def has_run(self, digest: str) -> bool:
        """Whether a run of this name is stored, whole or not."""
        return self.storage.exists(_run_path(digest))

    def run_sizes(self) -> dict[str, int]:
        """Bytes of each stored run, by its name."""
        runs = self.storage.list_level(f"{STATE_DIRECTORY}/run").objects
        return {info.path.rpartition("/")[2]: info.size for info in runs}

    def put_manifest(self, instant: str, manifest: Manifest) -> None:
        """Store the state after this instant, unless another process was faster."""
        created(self.storage, _manifest_path(instant), sealed("manifest", manifest.as_json(), self.table_id))

    def newest_manifest(self) -> Manifest:
        """The newest manifest that can be read; an empty one if there is none: then all keys are loaded again.

        A manifest that cannot be read is left out, with a warning: an older one differs from the table's files, and
        what differs is loaded.
        """
        for path in sorted(self._names("manifest"), reverse=True):
            try:
                return self._manifest(path)
            except NotFound:  # swept by another process
                continue
            except StateError as error:
                log.warning("state manifest left out", extra={"path": path, "reason": str(error)})
        return Manifest()

    def sweep(self, now: datetime, *, keep_runs: Iterable[str] = ()) -> list[str]:
        """Delete what nobody needs: manifests but the newest ones, and runs that none of these names; the paths.

        `keep_runs`: digests in plans of open instants. Runs younger than `UNNAMED_KEPT` by the store's clock stay, and
        so do all runs if a manifest that stays cannot be read.
        """
        manifests = sorted(self._names("manifest"), reverse=True)
        kept = manifests[:MANIFESTS_KEPT]
        named = {_run_path(digest) for digest in keep_runs}
        try:
            named |= {_run_path(digest) for path in kept for digest in self._manifest(path).runs}
        except StateError:
            return []
        gone = manifests[MANIFESTS_KEPT:]
        for info in self.storage.list_level(f"{STATE_DIRECTORY}/run").objects:
            if info.path not in named and info.modified < now - UNNAMED_KEPT:
                gone.append(info.path)
        self.storage.delete_many(gone)
        return gone

    def _is_whole(self, digest: str) -> bool:
        found, before = hashlib.sha256(), b""
        for part in self._parts(_run_path(digest)):
            data = before + part
            found.update(data[:-DIGEST_BYTES])
            before = data[-DIGEST_BYTES:]
        return found.hexdigest() == digest == before.hex()

    def _parts(self, path: str) -> Iterator[bytes]:
        size = self.storage.head(path).size
        for start in range(0, size, _DOWNLOAD_BYTES):
            yield self.storage.get_range(path, start, min(_DOWNLOAD_BYTES, size - start))

    def _manifest(self, path: str) -> Manifest:
        source = f"{self.storage.url}/{path}"
        return Manifest.of_json(
            unsealed("manifest", self.storage.get(path), self.table_id, source=source), source=source
        )

    def _names(self, directory: str) -> list[str]:
        return [info.path for info in self.storage.list_level(f"{STATE_DIRECTORY}/{directory}").objects]


def keeps_state(table: HoodieTable) -> bool:
    """Whether keys of the table are looked up in a state: by what it was made with, or because there is one."""
    if table.has_state or table.bucket_count is not None:
        return table.has_state
    return table.storage.exists(_FORMAT)


def forget_state(storage: Storage) -> None:
    """Delete the state of a table: it is loaded again from the table's files. The format goes last."""
    for directory in ("manifest", "run"):
        storage.delete_many([info.path for info in storage.list_level(f"{STATE_DIRECTORY}/{directory}").objects])
    storage.delete(_FORMAT)


def _run_path(digest: str) -> str:
    return f"{STATE_DIRECTORY}/run/{digest}"


def _manifest_path(instant: str) -> str:
    return f"{STATE_DIRECTORY}/manifest/{instant}"
