"""Hudi behind a pipe: one Spark session with Hudi's own bundle, so that one JVM start judges a whole test run.

A script, not a module of the tests: it runs under the oracle's interpreter, because Hudi's newest obtainable bundle
needs Spark 3.5 and the job under test needs Spark 4. It reads one JSON request per line from standard input and answers
each with one JSON line. Rows travel as Parquet directories, never as JSON, so that no type is lost.

Request   {"op": name, ...parameters}
Response  {"ok": true, ...}
          {"ok": false, "error": message with its causes, "kind": Java or Python class, "trace": text}
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

Request = dict[str, Any]
Response = dict[str, Any]

CAUSES_MAX = 10


def start_session(jar: str, scratch: str, heap: str) -> SparkSession:
    """A local session that talks to nobody, keeps its files in `scratch` and shows timestamps in UTC."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.memory": heap,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": jar,
        # Hudi writes instants in the JVM's time zone unless the table says otherwise.
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        "spark.local.dir": f"{scratch}/local",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Days and times of any year are what their numbers say, in rows that come and go.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.catalogImplementation": "in-memory",
        # What Hudi's documentation asks of a Spark session.
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    builder = SparkSession.builder.master("local[2]").appName("hudi-oracle")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


class Operations:
    """What a client may ask for: each public method is an operation, its parameters are the request's fields."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def ping(self) -> Response:
        """The versions that judge, for the log of a test run."""
        return {"spark": self._spark.version, "java": self._system_property("java.version")}

    def read(self, path: str, out: str, options: dict[str, str]) -> Response:
        """Rows of the table at `path`, as any query type that `options` name, into the Parquet directory `out`."""
        return self._save(self._spark.read.format("hudi").options(**options).load(path), out)

    def read_all(self, reads: list[Request], out: str) -> Response:
        """Each of many small reads into an Arrow file of the folder `out`, named by its number; why some fail."""
        failures: Response = {}

        def read(number: int) -> None:
            try:
                asked = self._spark.read.format("hudi").options(**reads[number]["options"])
                frame: Any = asked.load(reads[number]["path"])
                batches: list[pa.RecordBatch] = frame._collect_as_arrow()
            except Exception as failure:  # noqa: BLE001 -- the client decides what a failure means
                failures[str(number)] = describe_failure(failure)["error"]
                return
            schema = batches[0].schema if batches else pa.schema([])
            with pa.OSFile(f"{out}/{number}.arrow", "wb") as file, pa.ipc.new_file(file, schema) as writer:
                writer.write_table(pa.Table.from_batches(batches, schema))

        interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        with self._session_conf(interpreted), ThreadPoolExecutor(2) as pool:
            for _ in pool.map(read, range(len(reads))):
                pass
        return {"failures": failures}

    def sql(self, statement: str, out: str, conf: dict[str, str]) -> Response:
        """Rows of one SQL statement, for Hudi's `call` procedures, with `conf` set while it runs."""
        with self._session_conf(conf):
            return self._save(self._spark.sql(statement), out)

    def write(self, path: str, rows: str, options: dict[str, str]) -> Response:
        """Rows of a Parquet file or directory handed to Hudi's writer; its options name the operation and the table."""
        self._spark.read.parquet(rows).write.format("hudi").options(**options).mode("append").save(path)
        return {}

    def instants(self, path: str) -> Response:
        """The active timeline, oldest request first: request time, completion time (null if pending), action, state."""
        jvm: Any = self._spark._jvm
        hadoop_conf = self._spark._jsc.hadoopConfiguration()
        storage_conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop_conf)
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        timeline = client.setConf(storage_conf).setBasePath(path).build().getActiveTimeline()
        instants = [
            {
                "requested": instant.requestedTime(),
                "completed": instant.getCompletionTime(),
                "action": instant.getAction(),
                "state": instant.getState().toString(),
            }
            for instant in timeline.getInstants()
        ]
        return {"instants": instants}

    def bucket_counts(self, expressions: str, default: int, partitions: list[str]) -> Response:
        """The bucket count of each partition by Hudi's own rule engine, which keeps the rules for this JVM."""
        jvm: Any = self._spark._jvm
        calculator = jvm.org.apache.hudi.index.bucket.partition.PartitionBucketIndexCalculator
        rules = calculator.getInstance(expressions, "regex", default)
        return {"counts": [rules.computeNumBuckets(partition) for partition in partitions]}

    def bloom_filter_finds(self, text: str, keys: list[str]) -> Response:
        """Which of the keys Hudi finds in a base file's filter, a simple one, given as its footer has it."""
        jvm: Any = self._spark._jvm
        found = jvm.org.apache.hudi.common.bloom.BloomFilterFactory.fromString(text, "SIMPLE")
        return {"found": [bool(found.mightContain(key)) for key in keys]}

    def from_protobuf(self, rows: str, descriptors: str, message: str, out: str) -> Response:
        """What Spark's `from_protobuf` makes of the column `value` of a Parquet file, as `row` beside `number`."""
        jvm: Any = self._spark._jvm
        options = jvm.java.util.HashMap()
        options.put("mode", "PERMISSIVE")
        value = F.col("value")._jc
        functions = jvm.org.apache.spark.sql.protobuf.functions  # PySpark's own expects those of its version
        row = Column(functions.from_protobuf(value, message, descriptors, options))
        return self._save(self._spark.read.parquet(rows).select("number", row.alias("row")), out)

    @contextmanager
    def _session_conf(self, conf: dict[str, str]) -> Iterator[None]:
        # Hudi's procedures take the bucket index from the session alone, and the session is shared by all tests.
        for key, value in conf.items():
            self._spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in conf:
                self._spark.conf.unset(key)

    def _save(self, frame: DataFrame, out: str) -> Response:
        if not frame.columns:  # Spark refuses to write a schema without columns: a table without any commit
            return {"columns": [], "rows": frame.count()}
        frame.coalesce(1).write.parquet(out)
        return {"columns": frame.columns}

    def _system_property(self, name: str) -> str:
        jvm: Any = self._spark._jvm
        return str(jvm.java.lang.System.getProperty(name))


def describe_failure(failure: Exception) -> Response:
    """The failure as a Java developer would want it: every cause's class and message, outermost first."""
    java: Any = None
    if isinstance(failure, Py4JJavaError):
        java = failure.java_exception
    elif isinstance(failure, CapturedException):
        java = failure._origin
    if java is None:
        return _failure(type(failure).__name__, [repr(failure)], traceback.format_exc())
    causes: list[str] = []
    cause = java
    while cause is not None and len(causes) < CAUSES_MAX:
        causes += _lines_that_tell(str(cause.toString()))
        cause = cause.getCause()
    return _failure(str(java.getClass().getName()), list(dict.fromkeys(causes)), str(failure))


def _lines_that_tell(message: str) -> list[str]:
    """The message without the stack trace that Spark puts into it when a task fails, but with that trace's causes."""
    first, *others = message.splitlines() or [""]
    return [first, *(line.removeprefix("Caused by: ") for line in others if line.startswith("Caused by: "))]


def _failure(kind: str, causes: list[str], trace: str) -> Response:
    return {"ok": False, "kind": kind, "error": "\n  caused by ".join(causes), "trace": trace}


def serve(operations: Operations, requests: IO[str], answers: IO[str]) -> None:
    """Answers requests until the client closes the pipe; a failing request is an answer like any other."""
    for line in requests:
        try:
            request: Request = json.loads(line)
            method: Callable[..., Response] = getattr(operations, request.pop("op"))
            answer = {"ok": True, **method(**request)}
        except Exception as failure:  # noqa: BLE001 -- the client decides what a failure means
            answer = describe_failure(failure)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def private_standard_output() -> IO[str]:
    """The real standard output for answers alone: what Spark, the JVM or a library prints goes to standard error."""
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")  # not inherited by the JVM
    os.dup2(2, 1)
    return private


def main() -> None:
    """Starts the session, says that it is ready, serves, and stops the JVM with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jar", required=True, help="the class path: Hudi's Spark bundle, Spark's from_protobuf")
    parser.add_argument("--scratch", required=True, help="directory for Spark's own files")
    parser.add_argument("--heap", default="1g", help="the JVM's heap")
    arguments = parser.parse_args()
    answers = private_standard_output()
    session = start_session(arguments.jar, arguments.scratch, arguments.heap)
    operations = Operations(session)
    answers.write(json.dumps({"ok": True, **operations.ping()}) + "\n")
    answers.flush()
    try:
        serve(operations, sys.stdin, answers)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
