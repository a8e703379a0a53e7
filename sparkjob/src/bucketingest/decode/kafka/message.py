"""What a message of Kafka is beside its value, in the names and types that Spark's Kafka source has for it: so it is
all one who reads it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

VALUE: Final = "value"
"""Column of a message's bytes; null: the message has none, a tombstone."""
KEY: Final = "key"
"""Column of the bytes of a message's key; null if it has none."""
OFFSET: Final = "offset"
HEADERS: Final = "headers"

MESSAGE: Final = pa.schema(
    [
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field(HEADERS, pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)
"""All columns of messages. A timestamp is in ms in Kafka, the producer's or the broker's as the topic says; headers are
null if there are none, and a name may be there twice.
"""
