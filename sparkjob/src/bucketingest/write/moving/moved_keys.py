"""What our own commits say of keys that moved: their old rows are deleted without being looked at again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.table.file_view import DataFile, FileSlice
from bucketingest.hudi.table.table import INDEX_TYPE, STATE_INDEX
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.index.state.hashing import Hashes, KeyHasher
from bucketingest.index.state.key_columns import keys_of_deletes
from bucketingest.index.whole_table.identity import group_name
from bucketingest.storage import NotFound, Storage

MOVED = "bucketingest.keys.moved"
"""In our commits: how many keys moved."""


def keys_moved_away(
    storage: Storage, hasher: KeyHasher, commits: Iterable[CommitMetadata]
) -> dict[str, Mapping[str, Hashes]]:
    """Hashes of the deleted keys of those of the commits that moved some, by file group and instant. Raises
    CorruptLog.
    """
    found: defaultdict[str, dict[str, Hashes]] = defaultdict(dict)
    for metadata in commits:
        extra = metadata.extra_metadata
        if extra.get(INDEX_TYPE) != STATE_INDEX or extra.get(MOVED, "0") == "0":
            continue
        for partition_path, stats in metadata.write_stats.items():
            for stat in stats:
                name = LogFileName.try_parse((stat.path or "").rpartition("/")[2])
                if name is None or stat.path is None or not stat.num_deletes:
                    continue
                files = FileSlice(name.instant, None, (DataFile(stat.path, 0, name),))
                try:
                    hashes = [hasher.hash(keys).hashes for keys in keys_of_deletes(storage, files)]
                except NotFound:  # rolled back after it was complete
                    continue
                group = group_name(partition_path, stat.file_id)
                before = found[group].get(name.instant, np.zeros(0, np.uint64))
                found[group][name.instant] = np.concatenate([before, *hashes])
    return dict(found)
