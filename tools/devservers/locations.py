"""Where downloaded and built things are kept: one cache folder outside the work tree, each entry named by its version.

The Makefile fills the folder and asks this module for the names, so that they are written down once. Only the standard
library is used here: the module also runs as a script, before any environment exists.
"""

import hashlib
import os
import sys
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_JAVA_25 = ("/usr/lib/jvm/*25*/bin/java", "/opt/java/*25*/bin/java")
"""For servers that need a newer one than Spark's."""


class MissingDependencyError(Exception):
    """Something the cache folder should hold is not there; the message names the make target that brings it."""


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/bucketingest`, by default `~/.cache/bucketingest`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bucketingest"


def connectors() -> Path:
    """Folder of the jars that PySpark 4.2 lacks: Kafka source, from_avro."""
    return cache_folder() / "jars" / "spark-4.2"


def kafka_broker() -> Path:
    """Folder of the Kafka broker's jars."""
    return cache_folder() / "jars" / "kafka-broker-4.1.0"


def apicurio_registry() -> Path:
    """Folder of a schema registry, as its archive has it."""
    return cache_folder() / "jars" / "apicurio-registry-2.6.13"


def trino() -> Path:
    """Folder of a Trino server with the plugins that the tests use."""
    return cache_folder() / "jars" / "trino-476"


def debezium() -> Path:
    """Folder of Debezium Server: its runner, and `lib`."""
    return cache_folder() / "jars" / "debezium-server-3.6.1"


def databases() -> Path:
    """Folder of PostgreSQL 15 and MariaDB 10.11 as Debian packages them, unpacked, with the libraries they need."""
    return cache_folder() / "databases"


def kerberos() -> Path:
    """Folder of MIT's Kerberos server as Debian packages it, unpacked, with the libraries it needs."""
    return cache_folder() / "kerberos"


def hudi_bundle() -> Path:
    """Apache Hudi's Spark bundle for PySpark 3.5, one jar."""
    return cache_folder() / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"


def spark_protobuf() -> Path:
    """Folder of Spark's from_protobuf for PySpark 3.5: that of Spark 3.4, the newest that is published."""
    return cache_folder() / "jars" / "spark-protobuf-3.4"


def kafka_spark_3_5() -> Path:
    """Folder of the jars that give PySpark 3.5 the Kafka source and from_avro."""
    return cache_folder() / "jars" / "kafka-spark-3.5"


def versitygw() -> Path:
    """The S3 server's binary."""
    return cache_folder() / "bin" / "versitygw-1.8.0"


def prometheus() -> Path:
    """Folder of Prometheus' binaries as Debian packages them, unpacked: `usr/bin/prometheus`, `usr/bin/promtool`."""
    return cache_folder() / "prometheus"


def oracle_venv() -> Path:
    """The environment of Hudi's own reader and writer, named by what it holds."""
    locked = (PROJECT_ROOT / "requirements" / "oracle.txt").read_bytes()
    return cache_folder() / "venvs" / f"oracle-{hashlib.sha256(locked).hexdigest()[:12]}"


ENTRIES = {
    "connectors": connectors,
    "kafka-broker": kafka_broker,
    "apicurio-registry": apicurio_registry,
    "trino": trino,
    "debezium": debezium,
    "databases": databases,
    "kerberos": kerberos,
    "hudi-bundle": hudi_bundle,
    "spark-protobuf": spark_protobuf,
    "kafka-spark-3.5": kafka_spark_3_5,
    "versitygw": versitygw,
    "prometheus": prometheus,
    "oracle-venv": oracle_venv,
}
"""Make target to the function that says where its result lies."""


def require(target: str) -> Path:
    """The path of what `make <target>` brings.

    Raises:
        MissingDependencyError: it is not there.
    """
    path = ENTRIES[target]()
    if not path.exists():
        raise MissingDependencyError(f"{path} is missing; `make {target}` in {PROJECT_ROOT} brings it")
    return path


def java_25(what: str) -> Path:
    """Java 25, for a server of this name.

    Raises:
        MissingDependencyError: there is none.
    """
    for pattern in _JAVA_25:
        for found in Path("/").glob(pattern.lstrip("/")):
            return found
    raise MissingDependencyError(f"{what} needs Java 25: none at {' or '.join(_JAVA_25)}")


if __name__ == "__main__":
    # For the Makefile: `NAME:=path` words, which it evaluates one by one.
    sys.stdout.write(f"CACHE:={cache_folder()}\n")
    for target, find in ENTRIES.items():
        sys.stdout.write(f"{target.upper().replace('-', '_').replace('.', '_')}:={find()}\n")
