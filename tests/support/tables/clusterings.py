"""Clusterings, as Hudi requests and completes them: only what names the file slices."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro

from bucketingest.hudi.plans.replaced import replacing_commit
from bucketingest.hudi.timeline.instant import CLUSTERING, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.storage import Storage

_SLICE: dict[str, Any] = {
    "type": "record",
    "name": "HoodieSliceInfo",
    "fields": [
        {"name": "dataFilePath", "type": ["null", "string"]},
        {"name": "deltaFilePaths", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "fileId", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
    ],
}
_CLUSTERING: dict[str, Any] = {
    "type": "record",
    "name": "HoodieRequestedReplaceMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {
            "name": "clusteringPlan",
            "type": [
                {
                    "type": "record",
                    "name": "HoodieClusteringPlan",
                    "fields": [
                        {
                            "name": "inputGroups",
                            "type": {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "HoodieClusteringGroup",
                                    "fields": [{"name": "slices", "type": {"type": "array", "items": _SLICE}}],
                                },
                            },
                        }
                    ],
                },
                "null",
            ],
            "default": None,  # of the second branch: not allowed, and so in Hudi's own schema
        }
    ],
}


def request_clustering(
    storage: Storage,
    time: str,
    groups: Iterable[tuple[str, str]],
    action: str = CLUSTERING,
    files: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> None:
    """Request a clustering of these (partition path, file id). `files`: the names of their files that it merges."""
    slices = [_slice(storage, group, (files or {}).get(group, ())) for group in groups]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(_CLUSTERING, _ignore_default_error=True), [plan])
    create_requested(storage, time, action, sink.getvalue())


def _slice(storage: Storage, group: tuple[str, str], names: Sequence[str]) -> dict[str, Any]:
    paths = [f"{storage.url}/{group[0]}/{name}" for name in names]
    return {
        "dataFilePath": next((path for path in paths if path.endswith(".parquet")), None),
        "deltaFilePaths": [path for path in paths if not path.endswith(".parquet")],
        "fileId": group[1],
        "partitionPath": group[0],
    }


def complete_clustering(storage: Storage, time: str, completed_at: str, groups: Iterable[tuple[str, str]]) -> None:
    """Complete it: its file groups are replaced. The new ones are not made."""
    create_inflight(storage, time, CLUSTERING)
    complete(storage, time, completed_at, replacing_commit((), groups, {}, "CLUSTER"), REPLACE_COMMIT)
