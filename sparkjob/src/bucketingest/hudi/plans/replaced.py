"""File groups that a completed instant replaced: their files stay until they are cleaned, but readers skip them.

Hudi's insert_overwrite, delete_partition and clustering replace whole file groups (Hudi 1.2.0:
`partitionToReplaceFileIds` in the metadata of a replacecommit).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from bucketingest.hudi.history.archived import archived_commits
from bucketingest.hudi.naming import BaseFileName, split
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.timeline.instant import CLUSTERING, REPLACE_COMMIT, Instant, State
from bucketingest.hudi.timeline.ocf import read_record, write_record
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage


def replaced_file_groups(storage: Storage, timeline: Timeline, before: str | None = None) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of every file group that a completed instant on the active timeline replaced; with
    `before` only those replaced by instants that completed before this time.

    Replaced files are cleaned before their instant is archived. Opens a file per replacecommit. Raises `InvalidTable`.
    """
    found = replacements(storage, timeline)
    return frozenset(
        group for group, instant in found.items() if before is None or (instant.completion_time or "") < before
    )


def replacements(storage: Storage, timeline: Timeline) -> dict[tuple[str, str], Instant]:
    """(partition path, file id) of every replaced file group -> the completed instant that replaced it, the first one.

    Opens a file per replacecommit. Raises `InvalidTable`.
    """
    replaced: dict[tuple[str, str], Instant] = {}
    for instant in timeline.completed_commits:
        if instant.action == REPLACE_COMMIT:
            for group in replaced_by(storage, instant):
                replaced.setdefault(group, instant)
    return replaced


def replaced_by(storage: Storage, instant: Instant) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of every file group that a completed replacecommit replaced. Raises `InvalidTable`."""
    path = path_of(instant)
    return _groups(storage.get(path), path)


def clustered_groups(storage: Storage, instant: Instant) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of the file groups whose rows are in the files of a completed replacecommit: all that a
    clustering replaced, none that another operation did. Raises `InvalidTable`.
    """
    path = path_of(instant)
    content = storage.get(path)
    is_clustering = read_record(content, path).get("operationType") == "CLUSTER"
    return _groups(content, path) if is_clustering else frozenset()


def replaced_since(storage: Storage, timeline: Timeline, first: str) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of every file group that a completed replacecommit replaced: those on the timeline and
    those with a request time from `first` on in the history. Opens a file per replacecommit, and those of the history
    with such times. Raises `InvalidTable`.
    """
    archived = (
        _groups(content, f"history: completed file of {time}")
        for time, content in archived_commits(storage, first, REPLACE_COMMIT)
    )
    return replaced_file_groups(storage, timeline).union(*archived)


def _groups(content: bytes, where: str) -> frozenset[tuple[str, str]]:
    record = read_record(content, where)
    groups = (record.get("partitionToReplaceFileIds") or {}).items()
    return frozenset((partition_path, file_id) for partition_path, file_ids in groups for file_id in file_ids)


def replacing_commit(
    stats: Iterable[WriteStat], replaced: Iterable[tuple[str, str]], extra: Mapping[str, str], operation_type: str
) -> bytes:
    """Content of the completed file of a replacecommit: the files that it wrote, and the (partition path, file id) that
    nobody reads from then on. Equal contents give equal bytes.
    """
    written: defaultdict[str, list[object]] = defaultdict(list)
    for stat in stats:
        written[stat.partition_path or ""].append(stat.to_avro())
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for partition_path, file_id in sorted(replaced):
        gone[partition_path].append(file_id)
    record = {
        "partitionToWriteStats": written,
        "compacted": False,
        "extraMetadata": dict(extra),
        "version": 1,
        "operationType": operation_type,
        "partitionToReplaceFileIds": gone,
    }
    return write_record("HoodieReplaceCommitMetadata", record)


def clustered_file_groups(storage: Storage, pending: Instant) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of the groups in the plan of a pending clustering, which older writers request as a
    replacecommit; none if the requested file has no plan. Raises `InvalidTable`.
    """
    return frozenset(slice_.group for slice_ in clustered_slices(storage, pending))


def in_pending_clusterings(storage: Storage, timeline: Timeline) -> dict[tuple[str, str], str]:
    """(partition path, file id) of the groups that pending clusterings take -> request time of the clustering. What is
    written to one of them is lost when the clustering completes. Raises `InvalidTable`.
    """
    return {
        group: instant.request_time
        for instant in timeline.pending
        if instant.action in (CLUSTERING, REPLACE_COMMIT)
        for group in clustered_file_groups(storage, instant)
    }


def clustered_slices(storage: Storage, clustering: Instant) -> tuple[CompactionOperation, ...]:
    """The file slices that a clustering merges, pending or completed; none if the requested file has no plan, as ours
    and those of other replacements. Raises `InvalidTable`.
    """
    for action in {clustering.action: None, CLUSTERING: None}:
        path = path_of(Instant(clustering.request_time, action, State.REQUESTED))
        with suppress(NotFound):
            return decoded_slices(storage.get(path), path)
    return ()


def decoded_slices(requested: bytes, where: str) -> tuple[CompactionOperation, ...]:
    """The file slices of a requested file of a clustering, none if it is empty. `where` names the file in the error.

    Hudi 1.2.0: HoodieRequestedReplaceMetadata, and its clustering plan's groups of slices, whose files have their whole
    paths. Raises `InvalidTable`.
    """
    plan = read_record(requested, where).get("clusteringPlan") if requested else None
    return tuple(
        _slice(file_slice)
        for group in (plan or {}).get("inputGroups") or ()
        for file_slice in group.get("slices") or ()
    )


def _slice(record: Mapping[str, Any]) -> CompactionOperation:
    base_file = split(record.get("dataFilePath") or "")[1]
    base = BaseFileName.try_parse(base_file)
    return CompactionOperation(
        partition_path=record["partitionPath"] or "",
        file_id=record["fileId"],
        base_instant="" if base is None else base.instant,
        base_file=base_file or None,
        log_files=tuple(split(path)[1] for path in record.get("deltaFilePaths") or ()),
    )
