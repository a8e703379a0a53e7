"""A pipeline that a test feeds while `bucketingest run` takes its files: each file is a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bucketingest.hudi.naming import PROPERTIES_PATH
from bucketingest.hudi.timeline.instant import DELTA_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage


@dataclass
class LakeRun:
    """Input, resource and table below one folder."""

    folder: Path
    place: str = ""
    """Of the table; below the folder if empty."""
    services: Mapping[str, Any] = field(default_factory=lambda: {"mode": "off"})
    partitions: Mapping[str, Any] = field(default_factory=lambda: {"partitionBy": ["region"]})
    files: int = 0

    @property
    def table(self) -> str:
        """Its URL."""
        return self.place or f"{self.folder}/orders"

    def describe(self, catalogs: list[dict[str, Any]]) -> Path:
        """Write the resource."""
        (self.folder / "in").mkdir()
        source = {"files": {"path": f"{self.folder}/in", "format": "parquet", "maxFilesPerTrigger": 1}}
        table = {"path": self.table, "recordKey": ["id"], **self.partitions}
        spec = {
            "source": source,
            "table": {**table, "orderingField": "seq", "index": {"buckets": 1}},
            "commit": {"mode": "checkpoint", "trigger": "100ms"},
            "services": dict(self.services),
            "catalogs": catalogs,
        }
        resource = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "orders"}}
        file = self.folder / "orders.yaml"
        file.write_text(yaml.safe_dump({**resource, "spec": spec}))
        return file

    def feed(self, *regions: str | None) -> None:
        """One more file."""
        self.files += 1
        sizes = [len(region or "") for region in regions]
        rows = {"id": [f"{self.files}-{region}" for region in regions], "region": list(regions), "size": sizes}
        made = self.folder / "made.parquet"
        pq.write_table(pa.table({**rows, "seq": [self.files] * len(regions)}), made)
        made.rename(self.folder / "in" / f"{self.files}.parquet")

    def is_committed(self) -> bool:
        """Whether every file is."""
        storage = open_storage(self.table)
        if not storage.exists(PROPERTIES_PATH):
            return False
        deltas = [each for each in Timeline.load(storage).completed_commits if each.action == DELTA_COMMIT]
        return len(deltas) == self.files
