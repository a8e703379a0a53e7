"""The job: PySpark's sources, decoding, and the query that hands micro-batches to the write path. pyspark is imported
here and nowhere below.

Exports are imported on first use: the processes in which tasks run import parts of this package, and must not wait for
what only a driver needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bucketingest.hudi.table.table import TableDefinition
    from bucketingest.stream.ingestion import ingest, ingest_resource
    from bucketingest.stream.pipeline import Pipeline
    from bucketingest.stream.running import RunningIngest
    from bucketingest.stream.tables.running import ingest_tables

__all__ = ["Pipeline", "RunningIngest", "TableDefinition", "ingest", "ingest_resource", "ingest_tables"]

_MODULES: Final = {
    "Pipeline": "bucketingest.stream.pipeline",
    "RunningIngest": "bucketingest.stream.running",
    "TableDefinition": "bucketingest.hudi.table.table",
    "ingest": "bucketingest.stream.ingestion",
    "ingest_resource": "bucketingest.stream.ingestion",
    "ingest_tables": "bucketingest.stream.tables.running",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
