"""Hudi's side of a benchmark: a process with PySpark 3.5 and Hudi's bundle, under the oracle's own interpreter."""

from __future__ import annotations

import argparse
import base64
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.avro.functions import from_avro

from bench.sides.protocol import Answer, serve, stay_on_core


class Hudi:
    """The operations. Times are wall seconds from the start of reading to the return, the commit being visible."""

    def __init__(self, jars: str, scratch: str, heap: str) -> None:
        settings = {
            "spark.driver.memory": heap,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraClassPath": jars.replace(",", ":"),
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
            "spark.local.dir": f"{scratch}/local",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            # What Hudi's documentation asks of a Spark session.
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }
        builder = SparkSession.builder.appName("hudi")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._session = builder.getOrCreate()
        self._scratch = scratch
        self._session.sparkContext.setLogLevel("ERROR")

    def write(self, source: dict[str, Any], path: str, options: dict[str, str], checkpoint: str) -> Answer:
        """Upsert the whole source: a folder of Parquet files by one write, a Kafka topic by Hudi's streaming sink."""
        started = time.monotonic()
        if source["kind"] == "files":
            self._session.read.parquet(source["path"]).write.format("hudi").options(**options).mode("append").save(path)
        else:
            self._stream(source, path, options, checkpoint)
        return {"seconds": time.monotonic() - started}

    def procedure(self, call: str, conf: dict[str, str]) -> Answer:
        """Rows of one of Hudi's procedures as lists, with `conf` set in the session while it runs."""
        for name, value in conf.items():
            self._session.conf.set(name, value)
        started = time.monotonic()
        rows = self._session.sql(call).collect()
        seconds = time.monotonic() - started
        for name in conf:
            self._session.conf.unset(name)
        return {"seconds": seconds, "rows": [[str(value) for value in row] for row in rows]}

    def snapshot(self, path: str, column: str) -> Answer:
        """A snapshot query of a whole table: number of rows, and the greatest value of a column."""
        started = time.monotonic()
        (found,) = self._session.read.format("hudi").load(path).agg(F.count(F.lit(1)), F.max(column)).collect()
        return {"seconds": time.monotonic() - started, "rows": found[0], "greatest": str(found[1])}

    def versions(self) -> Answer:
        """Versions of Spark and Java."""
        jvm: Any = self._session.sparkContext._jvm  # noqa: SLF001 - the one way to it
        return {"spark": self._session.version, "java": str(jvm.java.lang.System.getProperty("java.version"))}

    def _stream(self, source: dict[str, Any], path: str, options: dict[str, str], checkpoint: str) -> None:
        messages = self._session.readStream.format("kafka").option("subscribe", source["topic"])
        messages = messages.option("kafka.bootstrap.servers", source["bootstrap"]).option("startingOffsets", "earliest")
        rows = messages.load().select(self._row(**source["format"]).alias("row")).select("row.*")
        writer = rows.writeStream.format("hudi").options(**options).option("checkpointLocation", checkpoint)
        writer.outputMode("append").trigger(availableNow=True).start(path).awaitTermination()

    def _row(self, type: str, schema: str, messageName: str = "") -> Column:  # noqa: A002, N803 - the resource's names
        """A message's value as a struct, by Spark's own functions."""
        if type == "json":
            return F.from_json(F.col("value").cast("string"), schema)
        if type == "avro":
            return from_avro(F.col("value"), schema)
        file = Path(self._scratch) / "descriptors.pb"
        file.write_bytes(base64.b64decode(schema))
        jvm: Any = self._session.sparkContext._jvm  # noqa: SLF001 - PySpark's own function expects a newer jar
        value: Any = F.col("value")
        functions = jvm.org.apache.spark.sql.protobuf.functions
        return Column(functions.from_protobuf(value._jc, messageName, str(file)))  # noqa: SLF001 - likewise


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", required=True, help="Hudi's bundle and what else is read, separated by commas")
    parser.add_argument("--scratch", required=True, help="directory for Spark's own files")
    parser.add_argument("--heap", required=True, help="the JVM's heap")
    parser.add_argument("--core", help="number of the only core it may use; default: all")
    arguments = parser.parse_args()
    stay_on_core(arguments.core)
    serve(lambda: Hudi(arguments.jars, arguments.scratch, arguments.heap))
