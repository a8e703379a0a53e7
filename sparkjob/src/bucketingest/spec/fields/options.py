"""Names of options and properties that bucketingest sets itself, and that a user therefore cannot set."""

from __future__ import annotations

import re
from typing import Final

OPTION_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
"""An option that is a key of a Secret: a file in a folder."""

KAFKA_OPTIONS: Final[dict[str, str]] = {
    "kafka.bootstrap.servers": "use bootstrapServers",
    "subscribe": "use topics",
    "subscribePattern": "use topicPattern",
    "assign": "use topics",
    "startingOffsets": "use startingOffsets of the source",
    "startingOffsetsByTimestamp": "use startingOffsets of the source",
    "startingOffsetsByTimestampStrategy": "use startingOffsets of the source",
    "startingTimestamp": "use startingOffsets of the source",
    "endingOffsets": "a stream has no end",
    "endingOffsetsByTimestamp": "a stream has no end",
    "endingTimestamp": "a stream has no end",
    "maxOffsetsPerTrigger": "use maxOffsetsPerTrigger of the source",
    "minOffsetsPerTrigger": "use commit.trigger",
    "maxTriggerDelay": "use commit.trigger",
    "includeHeaders": "headers are not read",
    "kafka.auto.offset.reset": "use startingOffsets of the source",
    "kafka.enable.auto.commit": "offsets are kept in the table's timeline",
    "kafka.key.deserializer": "keys and values are read as bytes",
    "kafka.value.deserializer": "keys and values are read as bytes",
    "kafka.interceptor.classes": "Spark's Kafka source does not allow it",
}
"""Option of Spark's Kafka source → what to do instead. Spark compares names without regard to case."""

FILES_OPTIONS: Final[dict[str, str]] = {
    "path": "use path of the source",
    "maxFilesPerTrigger": "use maxFilesPerTrigger of the source",
    "maxBytesPerTrigger": "use maxFilesPerTrigger of the source",
    "cleanSource": "source files are never moved or deleted",
    "sourceArchiveDir": "source files are never moved or deleted",
}
"""Option of Spark's file source → what to do instead."""

SPARK_SETTINGS: Final[dict[str, str]] = {
    "spark.app.id": "it is made from the name of the BucketIngest",
    "spark.app.name": "it is the name of the BucketIngest",
    "spark.master": "the operator or the command line decides it",
    "spark.submit.deployMode": "it is always client",
    "spark.driver.cores": "use spark.driver.cores of the spec",
    "spark.driver.memory": "use spark.driver.memory of the spec",
    "spark.executor.cores": "use spark.executor.cores of the spec",
    "spark.executor.instances": "use spark.executor.instances of the spec",
    "spark.executor.memory": "use spark.executor.memory of the spec",
    "spark.kubernetes.container.image": "use spark.image of the spec",
    "spark.sql.streaming.checkpointLocation": "use checkpoint.path",
}
"""Spark setting → what to do instead."""

TABLE_PROPERTIES: Final[tuple[str, ...]] = (
    "hoodie.allow.operation.metadata.field",
    "hoodie.archivelog.folder",
    "hoodie.bucket.index.",
    "hoodie.compaction.payload.class",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.database.name",
    "hoodie.datasource.write.",
    "hoodie.index.",
    "hoodie.metadata.",
    "hoodie.partition.metafile.",
    "hoodie.populate.meta.fields",
    "hoodie.record.merge.",
    "hoodie.table.",
    "hoodie.timeline.",
)
"""Prefixes of the names of table properties that follow from other fields of the spec, or would make our commits
wrong or invisible (`hoodie.metadata.*`, `hoodie.populate.meta.fields`). Names as Hudi 1.2.0 writes them."""
