"""A Hive Metastore 2.3.9 with Hudi's HiveSyncTool beside it in one JVM: what registered tables are compared with.

Both come from the oracle: PySpark's jars have the metastore and Derby, Hudi's bundle has the tool.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.spec.fields.catalogs import HiveCatalog
from support.catalogs.tables import SyncedTable
from support.oracle.environment import OracleEnvironment

_OPENED = (
    *(f"java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *("java.util.concurrent", "java.util.concurrent.atomic"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
_SITE = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.uris": "",
    "hive.stats.autogather": "false",
    "hive.async.log.enabled": "false",  # its library is not among PySpark's jars
    # Only names are registered: nothing here reads the object store.
    "fs.s3.impl": "org.apache.hadoop.fs.ProxyLocalFileSystem",
}
_START_SECONDS = 400.0
_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@dataclass(frozen=True)
class Metastore:
    """A metastore that runs."""

    port: int
    jvm: Any

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def connect(self) -> HiveConnection:
        return HiveConnection.open(HiveCatalog(uri=self.uri, database="default"))

    def serve(self, settings: Mapping[str, str]) -> int:
        """Start one more server over the same database; its port. It may not listen yet."""
        return _serve(self.jvm, settings)

    def hive_sync(self, table: SyncedTable, base: Path, name: str) -> None:
        """Run Hudi's tool on a table."""
        words = ["--base-path", f"file:{base}", "--database", "default", "--table", name, "--sync-mode", "hms"]
        words += ["--metastore-uris", self.uri, "--support-timestamp"]
        words += ["--partition-value-extractor", f"org.apache.hudi.hive.{table.extractor}"]
        for field in table.partition_fields:
            words += ["--partitioned-by", field]
        array = self.jvm.new_array(self.jvm.jvm.java.lang.String, len(words))
        for place, word in enumerate(words):
            array[place] = word
        self.jvm.jvm.org.apache.hudi.hive.HiveSyncTool.main(array)


@contextmanager
def running_metastore(
    oracle: OracleEnvironment, folder: Path, core: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[Metastore]:
    """Start it with an empty database in memory; its log is in the folder. `core`: settings of Hadoop; `flags`: of the
    JVM.
    """
    with ExitStack() as stack:
        yield _started(oracle, folder, stack, core or {}, flags)


def _started(
    oracle: OracleEnvironment, folder: Path, stack: ExitStack, core: Mapping[str, str], flags: Sequence[str]
) -> Metastore:
    (folder / "warehouse").mkdir(parents=True)
    _write(folder / "hive-site.xml", {**_SITE, "hive.metastore.warehouse.dir": str(folder / "warehouse")})
    _write(folder / "core-site.xml", core)
    (jars,) = oracle.python.parent.parent.glob("lib/python3*/site-packages/pyspark/jars")
    log = stack.enter_context((folder / "log").open("wb"))
    process = subprocess.Popen(
        [
            "java",
            *_FLAGS,
            *flags,
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
            f"-Dderby.stream.error.file={folder / 'derby.log'}",
            *("-cp", f"{folder}:{jars}/*:{oracle.bundle}"),
            *("py4j.GatewayServer", "--die-on-broken-pipe", "0"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        cwd=folder,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    gateway_port = int(process.stdout.readline())
    # Java writes what it logs here too; a pipe that nobody reads is full after some errors, and then it stands still.
    threading.Thread(target=shutil.copyfileobj, args=(process.stdout, log), daemon=True).start()
    jvm = JavaGateway(gateway_parameters=GatewayParameters(port=gateway_port, auto_convert=True))
    stack.callback(jvm.close)
    metastore = Metastore(_serve(jvm, {}), jvm)
    _wait(metastore, process)
    return metastore


def _serve(jvm: Any, settings: Mapping[str, str]) -> int:
    hive = jvm.jvm.org.apache.hadoop.hive
    port = int(hive.metastore.MetaStoreUtils.findFreePort())
    conf, bridge = hive.conf.HiveConf(), hive.shims.ShimLoader.getHadoopThriftAuthBridge()
    for name, value in settings.items():
        conf.set(name, value)

    def run() -> None:
        with suppress(Py4JError):  # it returns when the JVM ends
            hive.metastore.HiveMetaStore.startMetaStore(port, bridge, conf)

    threading.Thread(target=run, daemon=True).start()
    return port


def _write(file: Path, settings: Mapping[str, str]) -> None:
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    file.write_text(f"<configuration>{properties}</configuration>")


def _wait(metastore: Metastore, process: subprocess.Popen[bytes]) -> None:
    """Until it answers; its Derby database takes most of that."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            metastore.connect().close()
        except CatalogUnavailable:
            assert process.poll() is None, "the metastore's JVM has ended: see its log"
            assert time.monotonic() < deadline, "the metastore does not answer: see its log"
            time.sleep(0.2)
        else:
            return
