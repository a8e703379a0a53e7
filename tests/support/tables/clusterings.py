"""Pending clusterings, as Hudi requests them: only what names the file groups."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import fastavro

from bucketingest.hudi.timeline.instant import CLUSTERING
from bucketingest.hudi.timeline.timeline import create_requested
from bucketingest.storage import Storage

_SLICE: dict[str, Any] = {
    "type": "record",
    "name": "HoodieSliceInfo",
    "fields": [{"name": "fileId", "type": ["null", "string"]}, {"name": "partitionPath", "type": ["null", "string"]}],
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
    storage: Storage, time: str, groups: Iterable[tuple[str, str]], action: str = CLUSTERING
) -> None:
    """Request a clustering of these (partition path, file id)."""
    slices = [{"fileId": file_id, "partitionPath": partition} for partition, file_id in groups]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(_CLUSTERING, _ignore_default_error=True), [plan])
    create_requested(storage, time, action, sink.getvalue())
