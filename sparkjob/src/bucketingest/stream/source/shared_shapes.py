"""Tables that differ in their topic only are made by the same SQL, of the same columns: Spark is asked once."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

from pyspark.sql import DataFrame

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.shape import RowShape


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
