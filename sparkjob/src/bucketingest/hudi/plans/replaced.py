"""File groups that a completed instant replaced: their files stay until they are cleaned, but readers skip them.

Hudi's insert_overwrite, delete_partition and clustering replace whole file groups (Hudi 1.2.0:
`partitionToReplaceFileIds` in the metadata of a replacecommit).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bucketingest.hudi.history.archived import archived_commits
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant, State
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
    replacecommit; none if the requested file has no plan.

    Hudi 1.2.0: HoodieRequestedReplaceMetadata, and its clustering plan's groups of slices. Raises `InvalidTable`.
    """
    path = path_of(Instant(pending.request_time, pending.action, State.REQUESTED))
    try:
        data = storage.get(path)
    except NotFound:
        return frozenset()
    if not data:
        return frozenset()
    plan = read_record(data, path).get("clusteringPlan") or {}
    return frozenset(
        (file_slice["partitionPath"] or "", file_slice["fileId"])
        for group in plan.get("inputGroups") or ()
        for file_slice in group.get("slices") or ()
    )
