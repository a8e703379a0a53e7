"""Which file groups a pending clustering will rewrite: until it has completed, their files must stay."""

from __future__ import annotations

from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage


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
