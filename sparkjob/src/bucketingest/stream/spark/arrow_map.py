"""Arrow in, Arrow out, on Spark's tasks, without pandas: PySpark's own call imports it to check its version. If it is
installed, each Python worker would import it too, which delays the first commit by a second or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(rows: DataFrame, stage: Stage, columns: str | StructType) -> DataFrame:
    """As `DataFrame.mapInArrow`: the stage sees a task's record batches and yields some with these columns."""
    function = UserDefinedFunction(stage, returnType=columns, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*(rows[name] for name in rows.columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)  # noqa: FBT003, SLF001
