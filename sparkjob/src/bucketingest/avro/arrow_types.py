"""Arrow's type of each simple type of Avro: messages and tables have the same columns for them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}
