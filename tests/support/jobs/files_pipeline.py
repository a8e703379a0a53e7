"""A folder of input files, a BucketIngest that reads them one by one, and the table it makes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage

FILES = 12
ROWS_PER_FILE = 200
KEYS = 500
FIRST_WRITTEN = 1_700_000_000
ROWS = FILES * ROWS_PER_FILE

RESOURCE = """\
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata:
  name: orders
spec:
  source:
    files:
      path: {folder}/in
      format: parquet
      maxFilesPerTrigger: 1
  transform:
    sql: {sql}
  table:
    path: {folder}/orders
    recordKey: [id]
    orderingField: seq
    index:
      buckets: 4
  commit:
    trigger: 0s
    {mode}
"""


@dataclass(frozen=True)
class FilesPipeline:
    """Input, BucketIngest and table below one folder."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "orders.yaml"

    @property
    def table(self) -> Path:
        return self.folder / "orders"

    @property
    def timeline(self) -> Timeline:
        return Timeline.load(open_storage(str(self.table)))

    def describe(self, sql: str = "SELECT * FROM source", interval: str | None = None) -> None:
        """Write the BucketIngest. `interval`: of instants that span micro-batches; else each has its own."""
        mode = "mode: checkpoint" if interval is None else f"mode: interval\n    interval: {interval}"
        text = RESOURCE.format(folder=self.folder, sql=sql, mode=mode)
        self.file.write_text(text if interval is None else f"{text}  slo:\n    commitLatency: 5m\n")

    def write_input(self) -> None:
        """Write the files: rows that update each other, `seq` counting up."""
        (self.folder / "in").mkdir()
        for number in range(FILES):
            seqs = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
            rows = pa.table({"id": [f"order-{seq % KEYS}" for seq in seqs], "seq": list(seqs)})
            path = self.folder / "in" / f"{number:03d}.parquet"
            pq.write_table(rows, path)
            os.utime(path, (FIRST_WRITTEN + number,) * 2)  # Spark takes the oldest first, by the millisecond


def newest_rows() -> list[tuple[str, int]]:
    """What the table must hold after all files: id and seq, sorted."""
    return sorted({f"order-{seq % KEYS}": seq for seq in range(ROWS)}.items())
