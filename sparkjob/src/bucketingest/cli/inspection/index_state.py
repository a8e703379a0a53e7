"""The stored state of an index: how large it is, and which file groups it knows. It is read, never made."""

from __future__ import annotations

from collections import defaultdict

from bucketingest.cli.inspection.layout import current_groups
from bucketingest.cli.inspection.report import IndexState
from bucketingest.cli.inspection.snapshot import TableSnapshot
from bucketingest.hudi.table.file_view import FileGroup
from bucketingest.index.errors import StateError
from bucketingest.index.state.coverage import difference
from bucketingest.index.state.store import StateStore
from bucketingest.storage import Storage


def index_state(storage: Storage, snapshot: TableSnapshot) -> IndexState | None:
    """The report; None for a table without a state. Opens two small files. Raises what storage raises."""
    if not snapshot.has_state:
        return None
    groups: defaultdict[str, dict[str, FileGroup]] = defaultdict(dict)
    for group in current_groups(snapshot.view, snapshot.replaced):
        groups[group.partition_path][group.file_id] = group
    everything = sum(map(len, groups.values()))
    try:
        store = StateStore.find(storage)
        if store is None:
            return IndexState(changed_groups=everything)
        manifest, sizes = store.newest_manifest(), store.run_sizes()
    except StateError as error:
        return IndexState(changed_groups=everything, problem=str(error))
    lost = sum(digest not in sizes for digest in manifest.runs)
    changed = everything
    if not lost:
        partitions = manifest.partitions
        changed = sum(
            len(difference(partitions[path].covered if path in partitions else {}, found).read)
            for path, found in groups.items()
        )
    return IndexState(
        runs=len(manifest.runs),
        lost_runs=lost,
        size_bytes=sum(sizes.get(digest, 0) for digest in manifest.runs),
        known_groups=everything - changed,
        changed_groups=changed,
        known_up_to=manifest.view or None,
    )
