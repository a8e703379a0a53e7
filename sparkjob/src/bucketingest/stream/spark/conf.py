"""The settings of a Spark session that a resource asks for, and of its JVM. PySpark is not imported: the JVM starts
before it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Final

from bucketingest.spec.model import BucketIngest

JARS_VARIABLE: Final = "BUCKETINGEST_JARS"
"""Environment variable: a folder of jars to add (the Kafka source, from_avro)."""

REQUIRED_CONF: Final = {
    # Timestamps without a zone in SQL are read as UTC on every machine, so the same input makes the same rows.
    "spark.sql.session.timeZone": "UTC",
    # A limit in bytes makes Spark sum up a batch's size again for each row it adds: a third of the JVM's time. A limit
    # in rows costs nothing, and this low it also bounds the memory of batches of long rows, and of the shuffle's
    # messages: 1,000 of them are 32 MiB (write.rows.chunks.MESSAGE_BYTES).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # The shuffle's partition count is the number of write tasks; nothing may merge or split them.
    "spark.sql.adaptive.enabled": "false",
    # Otherwise Spark reads from_json's corrupt-record column without decoding the others.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}

_LOG_CONFIGURATION: Final = "log4j2.configurationFile"
_MIB: Final = 1024**2
_COMPILE_LATER: Final = (  # four times the JVM's defaults
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
_YOUNG_MAX_MIB: Final = 512
_DEFAULT_CONF: Final = {
    "spark.python.daemon.module": "bucketingest.stream.spark.worker_daemon",
    # Spark's own, and names of Kafka's and clouds' secrets that it misses: plans and messages show a source's options.
    "spark.redaction.regex": "(?i)secret|passw|token|credential|jaas|(access|account|api|private|keystore)[._-]?key",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.minBatchesToRetain": "100",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}


def conf_of_run(resource: BucketIngest) -> dict[str, str]:
    """Settings of the session of `bucketingest run`: local unless the environment names a master."""
    # pyspark takes the workers' interpreter from here, on executors too; they need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return session_conf(resource, os.environ.get("MASTER"), connector_jars())


def session_conf(resource: BucketIngest, master: str | None, jars: list[str]) -> dict[str, str]:
    """Settings of the session; they win over spark-defaults.conf. Pure but for the place of temporary files.

    `master` is the environment's, None without one. `jars`: paths of connectors, on a cluster those in the image.
    """
    spark = resource.spec.spark
    is_local = master is None or master == "local" or master.startswith("local[")
    # Spark makes the folder when a view is named, though no table is ever put there.
    conf = {**_DEFAULT_CONF, "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "spark-warehouse")}
    conf["spark.master"] = master or "local[*]"
    if master is None:
        conf |= {f"spark.driver.{name}": "127.0.0.1" for name in ("bindAddress", "host")}
    if master is not None and master.startswith("k8s://"):
        # Executors start while the driver reads the table. The number of write tasks does not depend on how many run.
        conf["spark.scheduler.minRegisteredResourcesRatio"] = "0"
        conf["spark.default.parallelism"] = str(spark.executors_most * spark.slots)
    else:
        # On Kubernetes the operator sets it. With Spark's default, 1 GiB, a larger -Xms stops every executor.
        conf["spark.executor.memory"] = f"{spark.executor.memory // _MIB}m"
    if resource.spec.tables is not None:  # a table's own job, however long, leaves slots to the others
        conf["spark.scheduler.mode"] = "FAIR"
    if is_local:  # what no network carries is not worth the time of compressing it
        conf["spark.shuffle.compress"] = "false"
    # In local mode the driver's JVM does the executors' work too. Without executors its size is meant for that.
    stands_in = is_local and not spark.is_driver_only
    heap = max(spark.driver.memory, spark.executor.memory) if stands_in else spark.driver.memory
    conf["spark.driver.memory"] = f"{heap // _MIB}m"
    conf["spark.driver.extraJavaOptions"] = java_options(heap)
    conf["spark.executor.extraJavaOptions"] = java_options(spark.executor.memory)
    conf |= {**spark.conf, **REQUIRED_CONF}
    # By default executors log every option of the Kafka source, from its Secret too.
    conf["spark.executor.extraJavaOptions"] = with_log_configuration(conf["spark.executor.extraJavaOptions"])
    if master is not None and master.startswith("k8s://"):  # executors have the image too: nothing is copied
        jars = [f"local://{path}" for path in jars]
    if listed := [*filter(None, [conf.get("spark.jars")]), *jars]:
        conf["spark.jars"] = ",".join(listed)
    return conf


def java_options(heap: int) -> str:
    """Options of a JVM with a heap of so many bytes.

    Rows are garbage as soon as they are sent on. A small young generation is used again and again; a large one is
    memory touched for the first time, which took as long as the work itself (2M rows, heap of 6 GiB). And Spark does
    not count what the young generation may set apart: with too large a share it refuses a heap of 512 MiB. Nothing is
    certain in a JVM that ran out of memory, so it ends, and its exit code says why. The second compiler waits for what
    is called more often: at its defaults it takes a quarter of the processor time until the first commit. A heap and a
    metaspace that grow with their load are collected twenty times until then.
    """
    young = min(_YOUNG_MAX_MIB, heap // _MIB // 4)
    sizes = f"-Xms{heap // _MIB}m -XX:MaxNewSize={young}m -XX:MetaspaceSize=256m"
    return f"-XX:+UseParallelGC {sizes} -XX:+ExitOnOutOfMemoryError {_COMPILE_LATER}"


def connector_jars() -> list[str]:
    """Jars of the folder that the environment variable names, or of the cache folder that `make connectors` fills."""
    # A container's user may have no home.
    cache = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '')}/.cache"
    folder = os.environ.get(JARS_VARIABLE) or f"{cache}/bucketingest/jars/spark-4.2"
    return sorted(str(path) for path in _jars(Path(folder)))


def _jars(folder: Path) -> Iterable[Path]:
    return folder.glob("*.jar") if folder.is_dir() else ()


def with_log_configuration(options: str) -> str:
    """Options of a JVM with our configuration of its logger, unless they have one: errors only, as JSON lines. Pure."""
    if "log4j" in options:  # the user's own
        return options
    location = Path(str(files("bucketingest.stream.spark") / "log4j2.properties")).as_uri()
    return f"{options} -D{_LOG_CONFIGURATION}={location}".strip()
