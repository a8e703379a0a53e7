"""What all tables of a job use: one session, one look at Kafka, one gathering of micro-batches, and their limits."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.services.worker_process import KeptProcess
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.tables.combined import Write
from bucketingest.stream.tables.consistent.keeper import SetKeeper
from bucketingest.stream.tables.gathering import Gathering
from bucketingest.stream.tables.topics_look import TopicsLook

_ALONE: Final = 8
"""Tables that are written by a job of their own at a time."""


class SharedShapes:
    """Keeps what Spark said. Safe to share: one table asks, the others wait for the answer."""

    def __init__(self) -> None:
        self._known: dict[str, RowShape] = {}
        self._asking = threading.Lock()

    def of(self, shape: RowShape, rows: DataFrame) -> RowShape:
        """The shape, answered. `rows`: the source's, of any topic. Raises InvalidTransform."""
        assert shape.resource is not None, "a table of many has a resource"
        made_by = _without_topic(shape.resource)
        with self._asking:
            if made_by not in self._known:
                self._known[made_by] = shape.answered(rows)
            return replace(self._known[made_by], resource=shape.resource)


def _without_topic(resource: BucketIngest) -> str:
    """All of the resource that decides how rows are made, and more, but for the names that follow from its topic."""
    spec = resource.to_document(defaults=False)["spec"]
    table = {name: value for name, value in spec["table"].items() if name not in {"path", "name", "pipeline"}}
    kafka = {name: value for name, value in spec["source"]["kafka"].items() if name != "topics"}
    return json.dumps([spec.get("format"), spec.get("transform"), table, kafka], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all tables of the job use."""

    rows: DataFrame
    """Messages that are not to be read. The session has the settings that the write path relies on."""
    resource: BucketIngest
    look: TopicsLook
    gathering: Gathering
    write: Write
    """For one table alone."""
    limit_seconds: float
    """Tasks of a micro-batch that take longer are ended."""
    ended_hosts: Collection[str]
    stop: threading.Event
    catalogs: CatalogThreads
    sets: SetKeeper | None = None
    """If commits have whole transactions."""
    alone: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_ALONE))
    hanging: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(1))
    """For a table whose tasks hung when they were last tried."""
    shapes: SharedShapes = field(default_factory=SharedShapes)
    services: KeptProcess = field(default_factory=KeptProcess)
    """It is one table's turn at a time."""

    @property
    def session(self) -> SparkSession:
        """Spark's."""
        return self.rows.sparkSession
