"""A pipeline that a test feeds while `bucketingest run` takes its files: each file is a commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage


@dataclass
class LakeRun:
    """Input, resource and table below one folder."""

    folder: Path
    files: int = 0

    def describe(self, catalogs: list[dict[str, Any]]) -> Path:
        """Write the resource."""
        (self.folder / "in").mkdir()
        source = {"files": {"path": f"{self.folder}/in", "format": "parquet", "maxFilesPerTrigger": 1}}
        table = {"path": f"{self.folder}/orders", "recordKey": ["id"], "partitionBy": ["region"]}
        spec = {
            "source": source,
            "table": {**table, "orderingField": "seq", "index": {"buckets": 1}},
            "commit": {"mode": "checkpoint", "trigger": "100ms"},
            "services": {"mode": "off"},
            "catalogs": catalogs,
        }
        resource = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "orders"}}
        file = self.folder / "orders.yaml"
        file.write_text(yaml.safe_dump({**resource, "spec": spec}))
        return file

    def feed(self, *regions: str) -> None:
        """One more file."""
        self.files += 1
        rows = {"id": [f"{self.files}-{region}" for region in regions], "region": list(regions)}
        made = self.folder / "made.parquet"
        pq.write_table(pa.table({**rows, "seq": [self.files] * len(regions)}), made)
        made.rename(self.folder / "in" / f"{self.files}.parquet")

    def is_committed(self) -> bool:
        """Whether every file is."""
        place = self.folder / "orders"
        if not (place / ".hoodie").exists():
            return False
        return len(Timeline.load(open_storage(str(place))).completed_commits) == self.files
