"""The job: PySpark's sources, decoding, and the query that hands micro-batches to the write path. pyspark is imported
here and nowhere below.
"""

from bucketingest.stream.ingest import ingest, ingest_resource
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.running import RunningIngest

__all__ = ["Pipeline", "RunningIngest", "ingest", "ingest_resource"]
