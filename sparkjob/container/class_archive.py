"""Makes the class archive with which Spark's JVMs start, in the image and in tests: `class_archive.py FILE`.

A third of the processor time until the first commit goes into loading and verifying Spark's classes. An archive has
them as the JVM holds them in memory. The JVM takes it only for the class path that it was made with, in the same order,
so the class path is written beside it: FILE.classpath. With another class path, or other jars, it starts without.
FILE.options has the options that Spark's launcher gives each JVM: with them a driver starts one without the launcher.
"""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

_BY_NAME: Final = (
    "org/apache/spark/deploy/k8s/",
    "org/apache/spark/scheduler/cluster/",
    "org/apache/spark/executor/",
    "org/apache/spark/network/",
    "org/apache/spark/rpc/",
    "org/apache/spark/shuffle/",
    "org/apache/spark/storage/",
    "org/apache/spark/api/python/",
    "org/apache/spark/sql/execution/arrow/",
    "org/apache/spark/sql/execution/python/",
    "org/apache/spark/sql/kafka010/",
    "org/apache/arrow/",
    "io/fabric8/kubernetes/api/model/Pod",
    "io/fabric8/kubernetes/api/model/Container",
    "io/fabric8/kubernetes/api/model/ObjectMeta",
    "io/fabric8/kubernetes/api/model/OwnerReference",
    "io/fabric8/kubernetes/client/",
    "io/vertx/core/",
    "io/vertx/ext/web/client/",
    "org/apache/kafka/clients/",
    "org/apache/kafka/common/",
)
"""Beginnings of the names of classes that the query here does not load: of a cluster, Kafka, and Python's workers."""
_END_SECONDS: Final = 300


def main(archive: Path) -> None:
    """Run a small query in a JVM that writes its classes into the archive when it ends."""
    jars = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
    class_path = ":".join(map(str, jars))
    with tempfile.TemporaryDirectory(prefix="class-archive-") as folder:
        _java_with(class_path, archive, Path(folder))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        _query(session, Path(folder))
        loaded = _load(session, _names(jars))
        context: Any = session.sparkContext
        session.stop()
        gateway = context._gateway  # noqa: SLF001 - the JVM writes the archive when it ends
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_END_SECONDS)
    archive.with_name(f"{archive.name}.classpath").write_text(class_path, encoding="utf-8")
    sys.stdout.write(f"{archive}: {archive.stat().st_size // 2**20} MiB, {loaded} classes by name\n")


def _java_with(class_path: str, archive: Path, folder: Path) -> None:
    """Make Spark start a java that has this class path and no other, and writes the archive and its own options."""
    real = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    if real is None:
        raise SystemExit("java is missing")
    wrapper = folder / "jvm" / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    java = shlex.quote(real)
    wrapper.write_text(
        "#!/bin/bash\n"
        f'case " $* " in *" org.apache.spark.launcher.Main "*) exec {java} "$@" ;; esac\n'
        'for ((i = 1; i <= $#; i++)); do [ "${!i}" != -cp ] || break; done\n'
        'for option in "${@:i+2}"; do\n'
        '  case "$option" in org.apache.spark.deploy.SparkSubmit) break ;; -Xmx*) ;; *) echo "$option" ;; esac\n'
        f"done >{shlex.quote(f'{archive}.options')}\n"
        f"exec {java} -Xlog:cds=error,cds+dynamic=error -XX:ArchiveClassesAtExit={shlex.quote(str(archive))} "
        f'"${{@:1:i-1}}" -cp {shlex.quote(class_path)} "${{@:i+2}}"\n',
        encoding="utf-8",
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    os.environ["JAVA_HOME"] = str(folder / "jvm")


def _query(session: SparkSession, folder: Path) -> None:
    """What a pipeline does, but for Python's part: a stream, SQL, a shuffle."""
    (folder / "input").mkdir()
    (folder / "input" / "rows.json").write_text('{"id": 1, "at": 1}\n{"id": 2, "at": 1}\n', encoding="utf-8")

    def write(batch: Any, _: int) -> None:
        batch.createOrReplaceTempView("source")
        selected = batch.sparkSession.sql("SELECT id, at, concat('a', id) AS name FROM source WHERE id > 0")
        selected.repartition(2, "id").sortWithinPartitions("id").collect()

    stream = session.readStream.schema("id BIGINT, at BIGINT").json(str(folder / "input"))
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


def _names(jars: Iterable[Path]) -> Iterator[str]:
    for jar in jars:
        with zipfile.ZipFile(jar) as content:
            for name in content.namelist():
                if name.startswith(_BY_NAME) and name.endswith(".class"):
                    yield name.removesuffix(".class").replace("/", ".")


def _load(session: SparkSession, names: Iterable[str]) -> int:
    """Load these classes without running their initialisers; returns how many there were."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark's way to the JVM's classes
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loaded = 0
    for name in names:
        try:
            jvm.java.lang.Class.forName(name, False, loader)  # noqa: FBT003 - Java has no keywords
        except Exception:  # noqa: BLE001, S112 - of a library that is not there
            continue
        loaded += 1
    return loaded


if __name__ == "__main__":
    main(Path(sys.argv[1]))
