"""One snapshot that adds and removes files. PyIceberg's own keeps each list of removed files for ever (0.12)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

from bucketingest.redaction import redacted

log = logging.getLogger(__name__)

MANIFESTS_MAX: Final = 50
"""So many small manifests are merged into one: each sync and each reader opens all of them."""
_MANIFEST_BYTES: Final = 8 * 1024**2
"""A manifest of this size is merged no more; Iceberg's own default."""


def replace_files(
    transaction: Transaction, new: Iterable[DataFile], gone: Iterable[DataFile], summary: dict[str, str]
) -> None:
    """Add a snapshot to the transaction. `summary`: properties of it."""
    first = transaction.table_metadata.current_snapshot() is None
    with _Difference(
        Operation.APPEND if first else Operation.OVERWRITE,
        transaction,
        transaction._table.io,  # noqa: SLF001 - as Transaction.update_snapshot does
        uuid.uuid4(),
        summary,
    ) as update:
        for file in new:
            update.append_data_file(file)
        for file in gone:
            update.delete_data_file(file)


class _Difference(_OverwriteFiles):
    """As Iceberg's Java library: a manifest without files that are there is left out, and small ones are merged."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        kept = [
            each
            for each in manifests
            if each.added_snapshot_id == self.snapshot_id or each.has_added_files() or each.has_existing_files()
        ]
        merger = _ManifestMergeManager(_MANIFEST_BYTES, MANIFESTS_MAX, merge_enabled=True, snapshot_producer=self)
        merged = merger.merge_manifests(kept)
        used = {each.manifest_path for each in merged}
        at_once = [each for each in self._written_manifests if each not in used]
        self._written_manifests = [each for each in self._written_manifests if each in used]
        delete_unused(self._io, at_once)
        return merged


def delete_unused(io: FileIO, paths: Collection[str]) -> None:
    """Files of metadata that no snapshot has. One that cannot be deleted stays, and nobody reads it."""
    for path in paths:
        try:
            io.delete(path)
        except OSError as error:
            log.warning(
                "a file of Iceberg's metadata is left over", extra={"path": path, "reason": redacted(str(error))}
            )
