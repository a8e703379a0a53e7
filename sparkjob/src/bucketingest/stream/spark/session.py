"""The Spark session a resource asks for, with the settings that the write path relies on."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.spark.jvm import start_jvm, with_log_configuration

JARS_VARIABLE: Final = "BUCKETINGEST_JARS"
"""Environment variable: a folder of jars to add (the Kafka source, from_avro)."""

REQUIRED_CONF: Final = {
    # Timestamps without a zone in SQL are read as UTC on every machine, so the same input makes the same rows.
    "spark.sql.session.timeZone": "UTC",
    # A limit in bytes makes Spark sum up a batch's size again for each row it adds: a third of the JVM's time. A limit
    # in rows costs nothing, and this low it also bounds the memory of batches of long rows, and of the shuffle's
    # messages: 1,000 of them are 32 MiB (write.shuffle.MESSAGE_BYTES).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # The shuffle's partition count is the number of write tasks; nothing may merge or split them.
    "spark.sql.adaptive.enabled": "false",
    # Otherwise Spark reads from_json's corrupt-record column without decoding the others.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # The file source's log is written at each start, in the form that fits this (checkpoint.source_files).
    "spark.sql.streaming.fileSource.log.compactInterval": "10",
}

_MIB: Final = 1024**2
_COMPILE_LATER: Final = (  # four times the JVM's defaults
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
_CHECKING_BYTES: Final = 512 * _MIB
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


def jvm_ahead(resource: BucketIngest) -> Future[None]:
    """Start the JVM of `build_session` in a thread: that takes seconds, in which this one imports what the job needs.

    The future ends with the JVM running, or with JvmFailed. Wait for it before anything else is done with a JVM.
    """
    executor = ThreadPoolExecutor(1, "jvm")
    started = executor.submit(start_jvm, _conf_of_run(resource))
    executor.shutdown(wait=False)
    return started


_early: list[Future[None]] = []


def start_jvm_early(resource: BucketIngest) -> None:
    """As `jvm_ahead`, before anything else of the command is imported. `take_early_jvm` hands the future over."""
    _early.append(jvm_ahead(resource))


def take_early_jvm() -> Future[None] | None:
    """The JVM that was started early, once; it is the caller's to end."""
    return _early.pop() if _early else None


def build_session(resource: BucketIngest) -> SparkSession:
    """The session for `bucketingest run`: local unless the environment names a master."""
    return _built(resource, _conf_of_run(resource))


def _conf_of_run(resource: BucketIngest) -> dict[str, str]:
    # pyspark takes the workers' interpreter from here, on executors too; they need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return session_conf(resource, os.environ.get("MASTER"), connector_jars())


def checking_session(resource: BucketIngest) -> SparkSession:
    """A small local session that reads no rows: it analyses what the resource says, and has Kafka's client."""
    small = {"memory": _CHECKING_BYTES}
    spark = resource.spec.spark
    spark = spark.model_copy(
        update={
            "driver": spark.driver.model_copy(update=small),
            "executor": spark.executor.model_copy(update=small),
        }
    )
    resource = resource.model_copy(update={"spec": resource.spec.model_copy(update={"spark": spark})})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _built(resource, {**session_conf(resource, None, connector_jars()), "spark.master": "local[1]"})


def _built(resource: BucketIngest, conf: dict[str, str]) -> SparkSession:
    start_jvm(conf)
    builder = SparkSession.builder.appName(f"bucketingest {resource.pipeline}")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_conf(resource: BucketIngest, master: str | None, jars: list[str]) -> dict[str, str]:
    """Settings of the session; they win over spark-defaults.conf. Pure but for the place of temporary files.

    `master` is the environment's, None without one. `jars`: paths of connectors, on a cluster those in the image.
    """
    spark = resource.spec.spark
    is_local = master is None or master.startswith("local")
    # Spark makes the folder when a view is named, though no table is ever put there.
    conf = {**_DEFAULT_CONF, "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "spark-warehouse")}
    conf["spark.master"] = master or "local[*]"
    if master is None:
        conf |= {f"spark.driver.{name}": "127.0.0.1" for name in ("bindAddress", "host")}
    if master is not None and master.startswith("k8s://"):
        # Executors start while the driver reads the table. The number of write tasks does not depend on how many run.
        conf["spark.scheduler.minRegisteredResourcesRatio"] = "0"
        conf["spark.default.parallelism"] = str(spark.executor.instances * max(1, spark.executor.cores // 1000))
    if is_local:  # what no network carries is not worth the time of compressing it
        conf["spark.shuffle.compress"] = "false"
    # In local mode the driver's JVM does the executors' work too.
    heap = max(spark.driver.memory, spark.executor.memory) if is_local else spark.driver.memory
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


@contextmanager
def prepared(session: SparkSession) -> Iterator[None]:
    """Set what the write path relies on while a query is made and started: Spark copies the session's settings for it.

    The session, which may be the user's own, gets its settings back afterwards.
    """
    before = {name: session.conf.get(name, None) for name in REQUIRED_CONF}
    try:
        for name, value in REQUIRED_CONF.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
