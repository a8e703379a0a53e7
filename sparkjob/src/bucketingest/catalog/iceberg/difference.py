"""One snapshot that adds and removes files. PyIceberg's own keeps each list of removed files for ever (0.12)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

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
        return _ManifestMergeManager(
            _MANIFEST_BYTES, MANIFESTS_MAX, merge_enabled=True, snapshot_producer=self
        ).merge_manifests(kept)
