"""What reads the source, in Spark's plan of a micro-batch: it knows what each task would read."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame

from bucketingest.decode.sql.nodes import RowsInDoubt

OTHER_FORM: Final = "Spark's plan has another form than is known"
_DEPTH_MAX: Final = 10


def reading_rdd(rows: DataFrame, kind: str) -> Any:
    """The RDD of this class: what is between it and the rows only changes the form of a row. Raises RowsInDoubt."""
    rdd: Any = rows._jdf.queryExecution().logical().rdd()  # noqa: SLF001 - PySpark has no other way
    for _ in range(_DEPTH_MAX):
        if rdd.getClass().getSimpleName() == kind:
            return rdd
        before = rdd.dependencies()
        if before.size() != 1:
            break
        rdd = before.apply(0).rdd()
    raise RowsInDoubt(OTHER_FORM)
