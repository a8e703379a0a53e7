"""The BucketIngest that the demo runs, as the YAML a user would write: it stays behind as an example that worked."""

from __future__ import annotations

import json
from pathlib import Path

RATE_KEYS = 10_000
"""Sensors of the demo without Kafka: far fewer than rows, so that most rows are updates."""


def rate_yaml(directory: Path, rows_per_second: int) -> str:
    """Readings of sensors, made by Spark itself."""
    return f"""\
# Written by `bucketingest demo`. Run it again, for as long as you like: bucketingest run {directory}/demo.yaml
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata:
  name: demo
spec:
  source:
    rate:
      rowsPerSecond: {rows_per_second}
      keys: {RATE_KEYS}
  transform:
    sql: |
      SELECT
        concat('sensor-', lpad(CAST(key AS STRING), 5, '0')) AS sensor_id,
        value AS reading,
        timestamp AS updated_at,
        CASE WHEN key % 2 = 0 THEN 'north' ELSE 'south' END AS region
      FROM source
  table:
    path: {_quoted(directory / "table")}
    name: demo
    recordKey: [sensor_id]
    partitionBy: [region]
    orderingField: reading # counts up, so the later reading is the larger one
    index:
      buckets: 4
  commit:
    mode: checkpoint
    trigger: 1s
"""  # noqa: S608 - the names come from this module


def kafka_yaml(directory: Path, bootstrap_servers: str, topic: str) -> str:
    """Orders from a topic, with updates and deletes."""
    return f"""\
# Written by `bucketingest demo --kafka`. Its broker may be gone by now.
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata:
  name: demo-kafka
spec:
  source:
    kafka:
      bootstrapServers: {_quoted(bootstrap_servers)}
      topics: [{topic}]
      startingOffsets: earliest
  format:
    type: json
    schema: order_id STRING, amount DOUBLE, version BIGINT, region STRING, deleted BOOLEAN
  table:
    path: {_quoted(directory / "table")}
    name: demo_kafka
    recordKey: [order_id]
    partitionBy: [region]
    orderingField: version
    deleteWhen: deleted
    index:
      buckets: 8
  commit:
    mode: checkpoint
    trigger: 1s
"""


def _quoted(value: object) -> str:
    """JSON strings are YAML strings."""
    return json.dumps(str(value), ensure_ascii=False)
