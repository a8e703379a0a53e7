"""Our side of a benchmark: a process with one Spark session that runs pipelines on request, as `bucketingest run`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from bench.sides.protocol import Answer, serve, stay_on_core
from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingest_resource
from bucketingest.stream.spark.session import build_session


class Ours:
    """The operations. Times are wall seconds from the call that starts the query to its visible commit."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._session = build_session(BucketIngest.from_document(settings["resource"]))

    def write(self, resource: dict[str, Any]) -> Answer:
        """Ingest the whole source with the resource's pipeline."""
        model = BucketIngest.from_document(resource)
        started = time.monotonic()
        running = ingest_resource(self._session, model, once=True)
        running.wait()
        seconds = time.monotonic() - started
        return {"seconds": seconds, "batches": running.progress().batches}

    def ceiling(self, path: str, checkpoint: str) -> Answer:
        """The same query on a folder of Parquet files, with a writer that only counts what reaches Python."""
        counted: list[int] = []

        def count(rows: DataFrame, _batch: int) -> None:
            counted.append(sum(row.rows for row in rows.mapInArrow(_counts, "rows BIGINT").collect()))

        started = time.monotonic()
        schema = self._session.read.parquet(path).schema
        rows = self._session.readStream.schema(schema).option("maxFilesPerTrigger", 1000).parquet(path)
        stream = rows.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint)
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        return {"seconds": time.monotonic() - started, "rows": sum(counted)}

    def versions(self) -> Answer:
        """Versions of Spark, Java and pyarrow."""
        java = self._session.sparkContext._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr] # noqa: SLF001
        return {"spark": self._session.version, "java": str(java), "pyarrow": pa.__version__}


def _counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


if __name__ == "__main__":
    stay_on_core(sys.argv[2] if len(sys.argv) > 2 else None)
    serve(lambda: Ours(json.loads(Path(sys.argv[1]).read_text())))
