"""What all tables of a job use: one session, one look at Kafka, one gathering of micro-batches, and their limits."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.services.worker_process import KeptProcess
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.shared_shapes import SharedShapes
from bucketingest.stream.tables.combined import Write
from bucketingest.stream.tables.gathering import Gathering
from bucketingest.stream.tables.topics_look import TopicsLook

_ALONE: Final = 8
"""Tables that are written by a job of their own at a time."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all tables of the job use."""

    rows: DataFrame
    """Messages that are not to be read. The session has the settings that the write path relies on."""
    resource: BucketIngest
    look: TopicsLook
    gathering: Gathering
    write: Write
    """As the gathering's, for one table alone."""
    limit_seconds: float
    """Tasks of a micro-batch that take longer are ended."""
    ended_hosts: Collection[str]
    stop: threading.Event
    catalogs: CatalogThreads
    alone: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_ALONE))
    shapes: SharedShapes = field(default_factory=SharedShapes)
    services: KeptProcess = field(default_factory=KeptProcess)
    """It is one table's turn at a time."""

    @property
    def session(self) -> SparkSession:
        """Spark's."""
        return self.rows.sparkSession
