"""The BucketIngest of a soak, and the cluster on this machine that runs it: executors as processes of their own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from devservers.locations import require
from soak.traffic import DDL, TOPIC
from support.jobs.spark_home import make_spark_home

PIPELINE = "soak"
BUCKETS = 2
EXECUTORS = 2
LOG_FILES = 6
"""Of a file group: then the job compacts it."""
_EXECUTOR_MIB = 512
_OFFSETS_PER_MICRO_BATCH = 4000


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything of a run lies."""

    folder: Path

    @property
    def table(self) -> Path:
        """The table."""
        return self.folder / "table"

    @property
    def checkpoints(self) -> Path:
        """Spark's checkpoints."""
        return self.folder / "checkpoints"

    @property
    def spark_home(self) -> Path:
        """Stands in for PySpark's own folder, where a local cluster would put its executors' files."""
        return self.folder / "spark"

    def log(self, attempt: int) -> Path:
        """What an attempt printed."""
        return self.folder / "logs" / f"attempt-{attempt:04d}.log"

    def resource(self, attempt: int) -> Path:
        """The BucketIngest of an attempt."""
        return self.folder / "logs" / f"attempt-{attempt:04d}.yaml"


def write_resource(places: Places, attempt: int, bootstrap_servers: str, *, interval: bool) -> Path:
    """Write the BucketIngest of an attempt; all have the same table."""
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": PIPELINE},
        "spec": {
            "source": {
                "kafka": {
                    "bootstrapServers": bootstrap_servers,
                    "topics": [TOPIC],
                    "maxOffsetsPerTrigger": _OFFSETS_PER_MICRO_BATCH,
                }
            },
            "format": {"type": "json", "schema": DDL},
            "table": {
                "path": str(places.table),
                "recordKey": ["id"],
                "partitionBy": ["region"],
                "orderingField": "ts",
                "deleteWhen": "deleted",
                "index": {"buckets": BUCKETS},
                "writeTasks": 2 * EXECUTORS,
                # A driver that stands still holds the table for as long as that.
                "lock": {"leaseValidity": "10s", "waitTimeout": "30s"},
            },
            "commit": {
                "mode": "interval" if interval else "checkpoint",
                "trigger": "0s",
                **({"interval": "2s"} if interval else {}),
            },
            "services": {"mode": "inline", "compaction": {"logFiles": LOG_FILES}},
            "checkpoint": {"path": str(places.checkpoints)},
            "spark": {
                "driver": {"memory": "512Mi"},
                "executor": {"memory": f"{_EXECUTOR_MIB}Mi"},
                "conf": _CONF,
            },
        },
    }
    file = places.resource(attempt)
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


_CONF = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # The cluster goes on however many executors are killed.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.worker.cleanup.enabled": "true",
}


def cluster_environment(places: Places) -> dict[str, str]:
    """Variables with which the command runs on a local cluster. Prepares the folder it needs.

    Raises MissingDependencyError if the Kafka source's jars are not there.
    """
    return {
        "MASTER": f"local-cluster[{EXECUTORS},1,{_EXECUTOR_MIB}]",
        "SPARK_HOME": str(make_spark_home(places.spark_home)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "BUCKETINGEST_JARS": str(require("connectors")),
    }
